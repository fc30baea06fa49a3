{{- /* Every object is called by the release, so that there may be several in a namespace. Pods' names add a dash, an ordinal and
the hash of a revision to it, and have to be names of hosts still: of 63 characters at most. */ -}}
{{- define "weft.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- /* The headless service, by which nodes find one another. */ -}}
{{- define "weft.peers" -}}
{{- include "weft.name" . }}-peers
{{- end -}}

{{- /* What pods are selected by: never changes during the life of a release. */ -}}
{{- define "weft.selector" -}}
app.kubernetes.io/name: weft
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "weft.labels" -}}
{{ include "weft.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- /* Where the nodes are that found the cluster. No more than three, so that another number of nodes is no other list, for
which every node would be restarted: later ones join the cluster that these are of, and cannot found one. */ -}}
{{- define "weft.join" -}}
{{- $addresses := list -}}
{{- range $ordinal := untilStep 1 (int (add 1 (min 3 (int .Values.nodes)))) 1 -}}
{{- $addresses = append $addresses (printf "%s-%d.%s:7400" (include "weft.name" $) $ordinal (include "weft.peers" $)) -}}
{{- end -}}
{{- join "," $addresses -}}
{{- end -}}
