# shellcheck shell=bash
# The nodes during a takeover: which steps of the Rust operator are under way, and which cordons are its own.
#
# The Rust operator leaves no mark on what it cordons. A cordon is its own if it was seen while a step that cordons was
# under way, is not older than that step, was not made with kubectl, and is still the same one when it is adopted.
# steps.txt of the backup has a line NODE CORDON EXCLUSION for each node that was seen in such a step: the time of the
# cordon, and "True" for an exclusion from load balancers, or "-".

exclusion=node.kubernetes.io/exclude-from-external-load-balancers
cordon_annotation=brupop.bottlerocket.aws/cordoned
exclusion_annotation=brupop.bottlerocket.aws/excluded-from-load-balancers

# Prints the names of managed Nodes that are cordoned.
cordoned() {
  kubectl get nodes -l "$labelled" \
    -o go-template='{{range .items}}{{if .spec.unschedulable}}{{.metadata.name}}{{"\n"}}{{end}}{{end}}'
}

is_left_out() { case " $left_out " in *" $1 "*) return 0 ;; *) return 1 ;; esac; }

# While the Rust controller runs, an earlier run was abandoned: what it saw and adopted is no longer true.
start() {
  local node replicas file number=1
  for node in $left_out; do kubectl get node "$node" >/dev/null || die "--leave-out: there is no Node $node"; done
  mkdir -p "$backup"
  replicas=$(k get deployment brupop-controller-deployment --ignore-not-found -o jsonpath='{.spec.replicas}')
  if [ "${replicas:-0}" != 0 ]; then
    kubectl annotate nodes -l "$labelled" "$cordon_annotation-" "$exclusion_annotation-" >/dev/null
    while [ -e "$backup/earlier-$number" ]; do number=$((number + 1)); done
    for file in nodes.txt cordoned.txt crd.yaml shadows.yaml workloads.yaml steps.txt \
      {operator,crd}-{release.txt,version.txt,values.yaml,manifest.yaml}; do
      [ -e "$backup/$file" ] || continue
      mkdir -p "$backup/earlier-$number"
      mv "$backup/$file" "$backup/earlier-$number/"
    done
  fi
  touch "$backup/steps.txt"
}

# A step is under way until the current state is the desired one. After a failure an agent repeats the step, so the
# desired state becomes Idle, as the Rust controller would have set it.
finish_steps() {
  say '3. Wait for the steps that are under way'
  local deadline=$((SECONDS + timeout)) all name desired current since waiting
  [ -n "$(k get daemonset brupop-agent --ignore-not-found -o name)" ] || return 0
  while :; do
    all=$(states)
    waiting=
    while read -r name desired current since; do
      [ -n "$name" ] && [ "$current" != - ] && [ "$desired" != "$current" ] || continue
      [ "$desired" != RebootedIntoUpdate ] || see "${name#brs-}" "$since"
      is_left_out "${name#brs-}" || waiting="$waiting ${name#brs-}($desired)"
      [ "$current" != ErrorReset ] || [ "$desired" = Idle ] || reset "$name"
    done <<<"$all"
    [ -n "$waiting" ] || return 0
    [ "$SECONDS" -lt "$deadline" ] || die "still under way:$waiting; see docs/takeover.md"
    sleep 2
  done
}

reset() {
  k patch "$shadows" "$1" --type merge \
    -p "{\"spec\":{\"state\":\"Idle\",\"version\":null,\"state_transition_timestamp\":\"$(now)\"}}"
}

# Prints CORDON EXCLUSION of a Node, of actors other than kubectl: the time of the taint that kube-controller-manager
# adds for a cordon, and the value of the label.
marks() {
  local taint='{{if .spec.unschedulable}}{{range .spec.taints}}{{if eq .key "node.kubernetes.io/unschedulable"}}{{with .timeAdded}}{{.}}{{end}}{{end}}{{end}}{{end}}'
  local label='{{with .metadata.labels}}{{with index . "'$exclusion'"}}{{.}}{{end}}{{end}}'
  local cordoned_by='{{range $key, $_ := index .fieldsV1 "f:spec"}}{{if eq $key "f:unschedulable"}}{{$by}}{{end}}{{end}}'
  local excluded_by='{{with index .fieldsV1 "f:metadata"}}{{range $key, $_ := index . "f:labels"}}{{if eq $key "f:'$exclusion'"}}{{$by}}{{end}}{{end}}{{end}}'
  local managers="{{range .metadata.managedFields}}{{\$by := .manager}}"
  kubectl get node "$1" --ignore-not-found --show-managed-fields \
    -o go-template="$taint|$label|$managers$cordoned_by{{end}}|$managers$excluded_by{{end}}" |
    awk -F'|' '{ print ($1 == "" || $3 ~ /^kubectl/ ? "-" : $1), ($2 != "True" || $4 ~ /^kubectl/ ? "-" : "True") }'
}

# Records the marks of a node while its step is under way: see NODE SINCE
# Both times are in UTC, so their first 19 characters can be compared.
see() {
  local found cordon excluded
  found=$(marks "$1")
  [ -n "$found" ] || return 0
  read -r cordon excluded <<<"$found"
  if [[ ${cordon:0:19} < ${2:0:19} ]]; then cordon=-; fi
  { awk -v node="$1" '$1 != node' "$backup/steps.txt" && say "$1 $cordon $excluded"; } >"$backup/steps.txt.part"
  mv "$backup/steps.txt.part" "$backup/steps.txt"
}

# The annotations record what this operator owns on a Node, so its first agent there removes it: adopt NODE KEY
adopt() { kubectl annotate node "$1" --overwrite "$2=$(now)"; }

adopt_nodes() {
  say '   Record the cordons of interrupted updates as owned by the operator, and end these updates'
  local node cordon excluded found all name desired current since
  while read -r node cordon excluded; do
    found=$(marks "$node")
    [ -n "$found" ] || continue
    [ "$cordon" = - ] || [ "${found%% *}" != "$cordon" ] || adopt "$node" "$cordon_annotation"
    [ "$excluded" = - ] || [ "${found##* }" != "$excluded" ] || adopt "$node" "$exclusion_annotation"
  done <"$backup/steps.txt"
  all=$(states)
  while read -r name desired current since; do
    [ -z "$name" ] || [ "$desired" = Idle ] || reset "$name"
  done <<<"$all"
}

# Prints the names of Nodes with an annotation: annotated KEY
annotated() {
  kubectl get nodes \
    -o go-template="{{range .items}}{{\$name := .metadata.name}}{{with .metadata.annotations}}{{with index . \"$1\"}}{{\$name}} {{end}}{{end}}{{end}}"
}

# The Rust operator knows of no interrupted update, so what was adopted for this operator ends here.
back() {
  require_rust_operator
  local nodes node
  nodes=$(annotated "$cordon_annotation")
  for node in $nodes; do
    kubectl uncordon "$node"
    kubectl annotate node "$node" "$cordon_annotation-"
  done
  nodes=$(annotated "$exclusion_annotation")
  for node in $nodes; do
    kubectl label node "$node" "$exclusion-"
    kubectl annotate node "$node" "$exclusion_annotation-"
  done
}

# Names what stays on Nodes, and may be what the Rust operator has left after earlier updates.
say_kept() {
  local all node
  all=$(cordoned)
  for node in $all; do
    [ -n "$(annotation "$cordon_annotation" node "$node")" ] ||
      say "$node stays cordoned: no update under way has cordoned it. If it may be used again: kubectl uncordon $node"
  done
  all=$(kubectl get nodes -l "$labelled,$exclusion=True" -o go-template='{{range .items}}{{.metadata.name}} {{end}}')
  for node in $all; do
    [ -n "$(annotation "$exclusion_annotation" node "$node")" ] ||
      say "$node stays excluded from load balancers. If it may have traffic again: kubectl label node $node $exclusion-"
  done
}
