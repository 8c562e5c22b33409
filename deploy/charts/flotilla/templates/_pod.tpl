{{- define "flotilla.check" -}}
{{- if eq .Values.storage.type "embedded" -}}
{{- if gt (int .Values.replicas) 1 -}}
{{- fail "replicas above 1 need storage.type etcd: the embedded store belongs to one server" -}}
{{- end -}}
{{- if and (eq .Values.storage.embedded.volume "hostPath") (not .Values.storage.embedded.hostPath) -}}
{{- fail "storage.embedded.volume hostPath needs storage.embedded.hostPath" -}}
{{- end -}}
{{- else if .Values.storage.etcd.install -}}
{{- if .Values.storage.etcd.servers -}}
{{- fail "storage.etcd.servers names an external etcd; it cannot be combined with storage.etcd.install" -}}
{{- end -}}
{{- else if not .Values.storage.etcd.servers -}}
{{- fail "storage.type etcd needs storage.etcd.servers, or storage.etcd.install for an etcd of this chart" -}}
{{- end -}}
{{- if and .Values.serviceMonitor.enabled (not .Values.serviceMonitor.tokenSecret.name) -}}
{{- fail "serviceMonitor.enabled needs serviceMonitor.tokenSecret.name: /metrics requires a token of the control plane" -}}
{{- end -}}
{{- end -}}

{{/* The Secret with the certificates for etcd; empty: without TLS. */}}
{{- define "flotilla.etcdSecret" -}}
{{- if .Values.storage.etcd.install -}}
{{ include "flotilla.fullname" . }}-etcd
{{- else -}}
{{ .Values.storage.etcd.tlsSecret }}
{{- end -}}
{{- end -}}

{{- define "flotilla.etcdServers" -}}
{{- if .Values.storage.etcd.install -}}
{{- $servers := list -}}
{{- range $i := until (int .Values.storage.etcd.replicas) -}}
{{- $servers = append $servers (printf "https://%s-etcd-%d.%s-etcd.%s.svc:2379" (include "flotilla.fullname" $) $i (include "flotilla.fullname" $) $.Release.Namespace) -}}
{{- end -}}
{{ join "," $servers }}
{{- else -}}
{{ join "," .Values.storage.etcd.servers }}
{{- end -}}
{{- end -}}

{{/* The Secret with the EncryptionConfiguration; empty: a key in the volume, or none. Servers that were installed without it could not
read what the first updated one seals, so an upgrade does not add it. */}}
{{- define "flotilla.encryptionSecret" -}}
{{- $name := printf "%s-encryption" (include "flotilla.fullname" .) -}}
{{- if .Values.encryption.existingSecret -}}
{{ .Values.encryption.existingSecret }}
{{- else if and (eq .Values.storage.type "etcd") .Values.encryption.create (or .Release.IsInstall (lookup "v1" "Secret" .Release.Namespace $name)) -}}
{{ $name }}
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
  # The server uses the API of the cluster it runs in only to publish its kubeconfig.
  automountServiceAccountToken: {{ .Values.kubeconfigSecret.create }}
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
  {{- with .Values.extraInitContainers }}
  initContainers:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: flotilla
      image: {{ include "flotilla.image" . | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      command: [flotilla, server]
      args:
        {{- include "flotilla.args" . | nindent 8 }}
      env:
        - name: POD_IP
          valueFrom:
            fieldRef:
              fieldPath: status.podIP
        {{- with .Values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with .Values.extraEnvFrom }}
      envFrom:
        {{- toYaml . | nindent 8 }}
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
        {{- if and (eq .Values.storage.type "etcd") (include "flotilla.etcdSecret" .) }}
        - name: etcd
          mountPath: /etcd
          readOnly: true
        {{- end }}
        {{- if .Values.pkiSecret }}
        - name: keys
          mountPath: /keys
          readOnly: true
        {{- end }}
        {{- if include "flotilla.encryptionSecret" . }}
        - name: encryption
          mountPath: /encryption
          readOnly: true
        {{- end }}
        {{- if .Values.oidc.caSecret }}
        - name: oidc
          mountPath: /oidc
          readOnly: true
        {{- end }}
        {{- with .Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    {{- with .Values.extraContainers }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  volumes:
    - name: tmp
      emptyDir: {}
    {{- if or (eq .Values.storage.type "etcd") (eq .Values.storage.embedded.volume "emptyDir") }}
    - name: data
      emptyDir: {}
    {{- else if eq .Values.storage.embedded.volume "hostPath" }}
    - name: data
      hostPath:
        path: {{ .Values.storage.embedded.hostPath }}
        type: DirectoryOrCreate
    {{- end }}
    {{- if eq .Values.storage.type "etcd" }}
    {{- with include "flotilla.etcdSecret" . }}
    - name: etcd
      secret:
        secretName: {{ . }}
        defaultMode: 288 # 0440
    {{- end }}
    {{- end }}
    {{- with .Values.pkiSecret }}
    - name: keys
      secret:
        secretName: {{ . }}
        defaultMode: 288 # 0440
    {{- end }}
    {{- with include "flotilla.encryptionSecret" . }}
    - name: encryption
      secret:
        secretName: {{ . }}
        defaultMode: 288 # 0440
    {{- end }}
    {{- with .Values.oidc.caSecret }}
    - name: oidc
      secret:
        secretName: {{ . }}
        defaultMode: 288 # 0440
    {{- end }}
    {{- with .Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}
