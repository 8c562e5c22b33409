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
  # The manager uses the API of the cluster it runs in only to publish its kubeconfig.
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
  {{- with .Values.extraInitContainers }}
  initContainers:
    {{- toYaml . | nindent 4 }}
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
        - --tls-san={{ include "manager.host" . }}.{{ .Values.clusterDomain }}
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
        {{- with .Values.instancesDomain }}
        - --instances-domain={{ . }}
        {{- end }}
        {{- if .Values.kubeconfigSecret.create }}
        - --kubeconfig-secret={{ .Release.Namespace }}/{{ .Values.kubeconfigSecret.name }}
        {{- end }}
        {{- if .Values.pkiSecret }}
        - --import-keys=/keys
        {{- end }}
        {{- if .Values.encryption.existingSecret }}
        - --encryption-provider-config=/encryption/{{ .Values.encryption.key }}
        - --encryption-provider-config-automatic-reload=true
        {{- end }}
        {{- with include "manager.oidc" . | trim }}
        {{- . | nindent 8 }}
        {{- end }}
        {{- range .Values.extraArgs }}
        - {{ . | quote }}
        {{- end }}
      {{- with .Values.extraEnv }}
      env:
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
        {{- if .Values.pkiSecret }}
        - name: keys
          mountPath: /keys
          readOnly: true
        {{- end }}
        {{- if .Values.encryption.existingSecret }}
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
    {{- with .Values.pkiSecret }}
    - name: keys
      secret:
        secretName: {{ . }}
        defaultMode: 288 # 0440
    {{- end }}
    {{- with .Values.encryption.existingSecret }}
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

{{/* Sign-in with OpenID Connect. */}}
{{- define "manager.oidc" -}}
{{- with .Values.oidc }}
{{- if .issuerUrl }}
- --oidc-issuer-url={{ .issuerUrl }}
- --oidc-client-id={{ required "oidc.clientId: required with oidc.issuerUrl" .clientId }}
- --oidc-username-claim={{ .usernameClaim }}
{{- if .usernamePrefix }}
- {{ printf "--oidc-username-prefix=%s" .usernamePrefix | quote }}
{{- end }}
{{- if .groupsClaim }}
- --oidc-groups-claim={{ .groupsClaim }}
{{- end }}
{{- if .groupsPrefix }}
- {{ printf "--oidc-groups-prefix=%s" .groupsPrefix | quote }}
{{- end }}
{{- range $claim, $value := .requiredClaims }}
- {{ printf "--oidc-required-claim=%s=%s" $claim $value | quote }}
{{- end }}
{{- if .caSecret }}
- --oidc-ca-file=/oidc/ca.crt
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "manager.image" -}}
{{- $repository := .Values.image.repository -}}
{{- with (.Values.global).imageRegistry }}{{- $repository = printf "%s/%s" . $repository -}}{{- end -}}
{{- if .Values.image.digest -}}
{{ $repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ $repository }}:{{ .Values.image.tag | default (printf "v%s" .Chart.AppVersion) }}
{{- end -}}
{{- end -}}
