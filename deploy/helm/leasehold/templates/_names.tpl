{{- define "leasehold.name" -}}
{{- if contains "leasehold" .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}{{ else }}{{ printf "%s-leasehold" .Release.Name | trunc 52 | trimSuffix "-" }}{{ end -}}
{{- end }}

{{- define "leasehold.selector" -}}
app.kubernetes.io/name: leasehold
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "leasehold.scheme" -}}
{{ if .Values.tlsSecret }}HTTPS{{ else }}HTTP{{ end }}
{{- end }}
