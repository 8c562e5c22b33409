{{- define "manager.pod" -}}
metadata:
  labels:
    {{- include "manager.labels" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .Values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "manager.account" . }}
  # The manager does not use the API of the cluster it runs in.
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
  {{- if .Values.pkiSecret }}
  initContainers:
    # The key directory must be private and writable, which a mounted secret is not.
    - name: keys
      image: {{ include "manager.image" . | quote }}
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
      image: {{ include "manager.image" . | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      command: [flotilla, manager]
      args:
        - --bind=0.0.0.0:5443
        - --data-dir=/data
        - --log={{ .Values.log }}
        - --advertise-url={{ .Values.advertiseUrl | default (printf "https://%s:%d" (include "manager.host" .) (int .Values.service.port)) }}
        - --tls-san={{ include "manager.fullname" . }}
        - --tls-san={{ include "manager.fullname" . }}.{{ .Release.Namespace }}
        - --tls-san={{ include "manager.host" . }}
        - --tls-san={{ include "manager.host" . }}.cluster.local
        {{- range .Values.tlsNames }}
        - --tls-san={{ . }}
        {{- end }}
        {{- if .Values.allowLoopbackEndpoints }}
        - --allow-loopback-endpoints
        {{- end }}
        {{- if .Values.sharedMembers }}
        - --shared-members
        {{- end }}
        {{- if .Values.grpcReflection }}
        - --grpc-reflection
        {{- end }}
        {{- range .Values.extraArgs }}
        - {{ . | quote }}
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
        httpGet: {path: /livez, port: https, scheme: HTTPS}
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
  volumes:
    - name: tmp
      emptyDir: {}
    {{- with .Values.pkiSecret }}
    - name: keys
      secret:
        secretName: {{ . }}
        defaultMode: 0440
    {{- end }}
{{- end -}}

{{- define "manager.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default (printf "v%s" .Chart.AppVersion) }}
{{- end -}}
