{{- define "gcwatch.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "gcwatch.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{- define "gcwatch.selectorLabels" -}}
app.kubernetes.io/name: {{ include "gcwatch.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: daemon
{{- end }}

{{- define "gcwatch.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "gcwatch.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "gcwatch.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "gcwatch.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "gcwatch.image" -}}
{{- with .Values.image -}}
{{- if not .registry }}
{{- fail "image.registry is empty in the chart of the sources: push the image to a registry and say --set image.registry=HOST/PATH, or load the image archive on every node and say --set image.registry=localhost (deploy/README.md)" }}
{{- end }}
{{- .registry }}/{{ .repository }}
{{- if .digest }}@{{ .digest }}{{ else }}:{{ default $.Chart.AppVersion .tag }}{{ end }}
{{- end }}
{{- end }}

{{- define "gcwatch.configMapName" -}}
{{- default (printf "%s-config" (include "gcwatch.fullname" .)) .Values.config.existingConfigMap }}
{{- end }}

{{/* Returns gcwatch.yaml: config.data, with the directory of the rules if the values contain rules, and kubernetes.events. */}}
{{- define "gcwatch.config" -}}
{{- $data := deepCopy .Values.config.data }}
{{- if .Values.rules.files }}
{{- $rules := default dict (get $data "rules") }}
{{- $_ := set $rules "files" (append (default list (get $rules "files")) "/etc/gcwatch/rules") }}
{{- $_ := set $data "rules" $rules }}
{{- end }}
{{- if .Values.kubernetes.events }}
{{- $_ := set $data "kubernetes" (set (default dict (get $data "kubernetes")) "events" "on") }}
{{- end }}
{{- tpl (toYaml $data) . }}
{{- end }}

{{- define "gcwatch.securityContext" -}}
{{- $context := deepCopy .Values.securityContext }}
{{- if .Values.appArmorProfile }}
{{- $_ := set $context "appArmorProfile" (dict "type" .Values.appArmorProfile) }}
{{- end }}
{{- toYaml $context }}
{{- end }}

{{/* Returns the rules of a file, with the addresses of Grafana and of the documentation before the links in alerts. */}}
{{- define "gcwatch.rules" -}}
{{- $values := .root.Values.prometheusRule -}}
{{- $text := .root.Files.Get .file -}}
{{- with $values.grafanaUrl }}{{ $text = replace "dashboard: /d/" (printf "dashboard: %s/d/" (trimSuffix "/" .)) $text }}{{ end -}}
{{- with $values.runbookUrl }}{{ $text = replace "runbook_url: docs/" (printf "runbook_url: %s/" (trimSuffix "/" .)) $text }}{{ end -}}
{{- $text -}}
{{- end }}
