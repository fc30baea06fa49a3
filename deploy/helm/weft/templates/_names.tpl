{{- /* Every object is called by the release, so that there may be several in a namespace. A name that is no name of a service is
refused. So is one that is too long, and not cut: two releases could have the same name then. Pods' names add a dash, an ordinal
and the hash of a revision to it, and have to be names of hosts still: of 63 characters at most.

Names are quoted wherever they stand: `true` and `null` are names too. */ -}}
{{- define "weft.name" -}}
{{- $name := .Release.Name -}}
{{- if or (gt (len $name) 40) (not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name)) -}}
{{- fail (printf "No release can be called %s: its name is that of services and pods. Take at most 40 lower-case letters, digits and dashes, of which the first is a letter and the last is no dash" $name) -}}
{{- end -}}
{{- $name -}}
{{- end -}}

{{- /* The headless service, by which nodes find one another. */ -}}
{{- define "weft.peers" -}}
{{- include "weft.name" . }}-peers
{{- end -}}

{{- /* What pods are selected by: never changes during the life of a release. */ -}}
{{- define "weft.selector" -}}
app.kubernetes.io/name: weft
app.kubernetes.io/instance: {{ include "weft.name" . | quote }}
{{- end -}}

{{- define "weft.labels" -}}
{{ include "weft.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
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
