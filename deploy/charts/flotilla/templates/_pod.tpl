{{- define "flotilla.check" -}}
{{- if eq .Values.storage.type "embedded" -}}
{{- if gt (int .Values.replicas) 1 -}}
{{- fail "replicas above 1 need storage.type etcd: the embedded store belongs to one server" -}}
{{- end -}}
{{- else -}}
{{- if not .Values.storage.etcd.servers -}}
{{- fail "storage.type etcd needs storage.etcd.servers" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "flotilla.pod" -}}
{{- include "flotilla.check" . -}}
metadata:
  labels:
    {{- include "flotilla.labels" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .Values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "flotilla.account" . }}
  # The server does not use the API of the cluster it runs in.
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  securityContext:
    {{- toYaml .Values.podSecurityContext | nindent 4 }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if .Values.pkiSecret }}
  initContainers:
    # The key directory must be private and writable, which a mounted secret is not.
    - name: keys
      image: {{ include "flotilla.image" . | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      command: [sh, -ec]
      args:
        - umask 077; mkdir -p /data/pki; for file in /keys/*; do test -e "/data/pki/${file##*/}" || cp -L "$file" /data/pki/; done
      securityContext:
        {{- toYaml .Values.securityContext | nindent 8 }}
      volumeMounts:
        - name: data
          mountPath: /data
        - name: keys
          mountPath: /keys
          readOnly: true
  {{- end }}
  containers:
    - name: flotilla
      image: {{ include "flotilla.image" . | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      command: [flotilla, server]
      args:
        - --bind=0.0.0.0:5443
        - --data-dir=/data
        - --log={{ .Values.log }}
        - --advertise-url={{ .Values.advertiseUrl | default (printf "https://%s:%d" (include "flotilla.host" .) (int .Values.service.port)) }}
        - --tls-san={{ include "flotilla.fullname" . }}
        - --tls-san={{ include "flotilla.fullname" . }}.{{ .Release.Namespace }}
        - --tls-san={{ include "flotilla.host" . }}
        - --tls-san={{ include "flotilla.host" . }}.cluster.local
        {{- range .Values.tlsNames }}
        - --tls-san={{ . }}
        {{- end }}
        {{- if eq .Values.storage.type "etcd" }}
        - --storage=etcd
        # The address of this replica for the others.
        - --peer-address=$(POD_IP):5443
        - --etcd-servers={{ join "," .Values.storage.etcd.servers }}
        - --etcd-prefix={{ .Values.storage.etcd.prefix }}
        {{- if .Values.storage.etcd.tlsSecret }}
        - --etcd-cafile=/etcd/ca.crt
        - --etcd-certfile=/etcd/tls.crt
        - --etcd-keyfile=/etcd/tls.key
        {{- end }}
        {{- end }}
        {{- range .Values.extraArgs }}
        - {{ . | quote }}
        {{- end }}
      {{- if eq .Values.storage.type "etcd" }}
      env:
        - name: POD_IP
          valueFrom:
            fieldRef:
              fieldPath: status.podIP
      {{- end }}
      ports:
        - name: https
          containerPort: 5443
      startupProbe:
        httpGet: {path: /readyz, port: https, scheme: HTTPS}
        periodSeconds: 2
        failureThreshold: 60
      readinessProbe:
        httpGet: {path: /readyz, port: https, scheme: HTTPS}
        periodSeconds: 5
      livenessProbe:
        # A restart does not help if etcd is unavailable.
        httpGet: {path: "/livez?exclude=etcd", port: https, scheme: HTTPS}
        periodSeconds: 10
        failureThreshold: 6
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      securityContext:
        {{- toYaml .Values.securityContext | nindent 8 }}
      volumeMounts:
        - name: data
          mountPath: /data
        - name: tmp
          mountPath: /tmp
        {{- if and (eq .Values.storage.type "etcd") .Values.storage.etcd.tlsSecret }}
        - name: etcd
          mountPath: /etcd
          readOnly: true
        {{- end }}
  volumes:
    - name: tmp
      emptyDir: {}
    {{- if eq .Values.storage.type "etcd" }}
    - name: data
      emptyDir: {}
    {{- with .Values.storage.etcd.tlsSecret }}
    - name: etcd
      secret:
        secretName: {{ . }}
        defaultMode: 0440
    {{- end }}
    {{- end }}
    {{- with .Values.pkiSecret }}
    - name: keys
      secret:
        secretName: {{ . }}
        defaultMode: 0440
    {{- end }}
{{- end -}}

{{- define "flotilla.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default (printf "v%s" .Chart.AppVersion) }}
{{- end -}}
