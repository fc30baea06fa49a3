{{- /* What an amount of Kubernetes comes to, as `500m`, `1.5` or `2Gi`. The schema has seen to it that it is one. */ -}}
{{- define "weft.amount" -}}
{{- $number := regexFind "^[0-9.]+" . -}}
{{- $unit := trimPrefix $number . -}}
{{- $factor := 1 -}}
{{- if eq $unit "m" -}}
{{- $factor = 0.001 -}}
{{- else if $unit -}}
{{- $base := ternary 1024 1000 (hasSuffix "i" $unit) -}}
{{- range until (index (dict "k" 1 "m" 2 "g" 3 "t" 4 "p" 5 "e" 6) (lower (substr 0 1 $unit))) -}}
{{- $factor = mulf $factor $base -}}
{{- end -}}
{{- end -}}
{{- mulf (float64 $number) $factor -}}
{{- end -}}

{{- /* What a pod asks for: as much as it may take, unless less is said. Kubernetes refuses more; here it is told which two values do
not go together. */ -}}
{{- define "weft.requests" -}}
{{- $resources := .Values.resources -}}
{{- $requests := dict -}}
{{- range $name := list "cpu" "memory" -}}
{{- $limit := get $resources.limits $name -}}
{{- $request := get $resources.requests $name | default $limit | default "1" -}}
{{- if and $limit (gt (include "weft.amount" $request | float64) (include "weft.amount" $limit | float64)) -}}
{{- fail (printf "resources.requests.%s is %s, which is above resources.limits.%s, %s: Kubernetes refuses that" $name $request $name $limit) -}}
{{- end -}}
{{- $_ := set $requests $name $request -}}
{{- end -}}
{{- toYaml $requests -}}
{{- end -}}

{{- /* The memory of a node, if it is enough for one. Units are those of the program, which has M for m and GiB for Gi. */ -}}
{{- define "weft.memory" -}}
{{- $memory := .Values.memory -}}
{{- $size := regexReplaceAll "[ Bb]" $memory "" | upper | replace "I" "i" -}}
{{- if and (not (hasSuffix "%" $memory)) (lt (include "weft.amount" $size | float64) 67108864.0) -}}
{{- fail (printf "memory is %s, and a node needs at least 64MiB" $memory) -}}
{{- end -}}
{{- $memory -}}
{{- end -}}
