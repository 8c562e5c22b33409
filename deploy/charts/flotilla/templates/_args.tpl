{{/* The flags of the server. */}}
{{- define "flotilla.args" -}}
- --bind=0.0.0.0:5443
- --data-dir=/data
- --log={{ .Values.log }}
- --advertise-url={{ .Values.advertiseUrl | default (printf "https://%s:%d" (include "flotilla.host" .) (int .Values.service.port)) }}
- --tls-san={{ include "flotilla.fullname" . }}
- --tls-san={{ include "flotilla.fullname" . }}.{{ .Release.Namespace }}
- --tls-san={{ include "flotilla.host" . }}
- --tls-san={{ include "flotilla.host" . }}.{{ .Values.clusterDomain }}
{{- range .Values.tlsNames }}
- --tls-san={{ . }}
{{- end }}
{{- if .Values.kubeconfigSecret.create }}
- --kubeconfig-secret={{ .Release.Namespace }}/{{ .Values.kubeconfigSecret.name }}
{{- end }}
{{- if .Values.pkiSecret }}
- --import-keys=/keys
{{- end }}
{{- if eq .Values.storage.type "etcd" }}
- --storage=etcd
# The address of this replica for the others.
- --peer-address=$(POD_IP):5443
- --etcd-servers={{ include "flotilla.etcdServers" . }}
- --etcd-prefix={{ .Values.storage.etcd.prefix }}
{{- if include "flotilla.etcdSecret" . }}
- --etcd-cafile=/etcd/ca.crt
- --etcd-certfile=/etcd/tls.crt
- --etcd-keyfile=/etcd/tls.key
{{- end }}
{{- end }}
{{- if include "flotilla.encryptionSecret" . }}
- --encryption-provider-config=/encryption/{{ .Values.encryption.key }}
- --encryption-provider-config-automatic-reload=true
{{- end }}
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
{{- with .Values.featureGates }}
- --feature-gates={{ range $i, $name := keys . | sortAlpha }}{{ if $i }},{{ end }}{{ $name }}={{ get $.Values.featureGates $name }}{{ end }}
{{- end }}
{{- range .Values.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end -}}

{{- define "flotilla.image" -}}
{{- $repository := .Values.image.repository -}}
{{- with (.Values.global).imageRegistry }}{{- $repository = printf "%s/%s" . $repository -}}{{- end -}}
{{- if .Values.image.digest -}}
{{ $repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ $repository }}:{{ .Values.image.tag | default (printf "v%s" .Chart.AppVersion) }}
{{- end -}}
{{- end -}}
