#!/usr/bin/env bash
# Prepares a cluster that runs the Rust operator (Brupop 1.x) for this one: docs/takeover.md.
#
#   scripts/takeover.sh check      reads only: what is there, and what `prepare` would do
#   scripts/takeover.sh prepare    stops the Rust operator between two steps, and removes it; keeps the shadows
#
# Options: --namespace NAME  of the Rust operator (default brupop-bottlerocket-aws)
#          --backup FOLDER   where to save what is removed (default ./brupop-backup)
#          --timeout SECONDS how long to wait for steps under way, and for pods to end (default 1800)
#
# Needs bash, kubectl and, if the Rust operator was installed with Helm, helm. Every command may be repeated.
set -euo pipefail

namespace=brupop-bottlerocket-aws
backup=./brupop-backup
timeout=1800
command=${1:-}
[ $# -eq 0 ] || shift
while [ $# -gt 1 ]; do
  case $1 in
    --namespace) namespace=$2 ;;
    --backup) backup=$2 ;;
    --timeout) timeout=$2 ;;
    *) break ;;
  esac
  shift 2
done

crd=bottlerocketshadows.brupop.bottlerocket.aws
shadows=bottlerocketshadows.v2.brupop.bottlerocket.aws
component=brupop.bottlerocket.aws/component
labelled=bottlerocket.aws/updater-interface-version=2.0.0
exclusion=node.kubernetes.io/exclude-from-external-load-balancers

say() { printf '%s\n' "$*"; }
die() { printf 'takeover: %s\n' "$*" >&2; exit 1; }
k() { kubectl --namespace "$namespace" "$@"; }
now() { date -u +%Y-%m-%dT%H:%M:%SZ; }

# Prints an annotation of an object, or nothing: annotation KEY KIND NAME
annotation() {
  k get "$2" "$3" --ignore-not-found \
    -o go-template="{{with .metadata.annotations}}{{with index . \"$1\"}}{{.}}{{end}}{{end}}"
}

# Prints NAME DESIRED CURRENT of each shadow. CURRENT is "-" before the first report.
states() {
  local status='{{with .status}}{{.current_state}}{{else}}-{{end}}'
  k get "$shadows" -o go-template='{{range .items}}{{.metadata.name}} {{.spec.state}} '"$status"'{{"\n"}}{{end}}'
}

# Prints the names of Nodes that are cordoned.
cordoned() {
  kubectl get nodes -l "$labelled" \
    -o go-template='{{range .items}}{{if .spec.unschedulable}}{{.metadata.name}}{{"\n"}}{{end}}{{end}}'
}

require_rust_operator() {
  kubectl get crd "$crd" >/dev/null || die "the definition $crd does not exist; there is nothing to take over"
  local selector
  selector=$(k get daemonset brupop-agent --ignore-not-found \
    -o go-template="{{with .spec.selector.matchLabels}}{{with index . \"$component\"}}{{.}}{{end}}{{end}}")
  case $selector in
    agent | '') ;;
    *) die "brupop-agent in $namespace is not that of the Rust operator; nothing was changed" ;;
  esac
}

check() {
  require_rust_operator
  say "shadows (name, desired state, current state):"
  states | sed 's/^/  /'
  say 'managed nodes that are cordoned:'
  cordoned | sed 's/^/  /'
  say "Helm release of the operator: $(annotation meta.helm.sh/release-name daemonset brupop-agent)"
  say "Helm release of the definition: $(annotation meta.helm.sh/release-name crd "$crd")"
  say "stored versions of the definition: $(kubectl get crd "$crd" -o jsonpath='{.status.storedVersions[*]}')"
}

# Saves objects once; a repeated run keeps what the first one saw.
save() {
  local file=$backup/$1
  shift
  [ -s "$file" ] || { "$@" >"$file.part" && mv "$file.part" "$file"; }
}

save_all() {
  mkdir -p "$backup"
  save nodes.txt kubectl get nodes -l "$labelled" -o name
  save cordoned.txt cordoned
  save crd.yaml kubectl get crd "$crd" -o yaml
  save shadows.yaml k get "$shadows" -o yaml
  save workloads.yaml k get daemonsets,deployments,services,serviceaccounts,configmaps -o yaml
  save_release operator "$(annotation meta.helm.sh/release-name daemonset brupop-agent)" \
    "$(annotation meta.helm.sh/release-namespace daemonset brupop-agent)"
  save_release crd "$(annotation meta.helm.sh/release-name crd "$crd")" \
    "$(annotation meta.helm.sh/release-namespace crd "$crd")"
}

# save_release FILE RELEASE NAMESPACE
save_release() {
  [ -n "$2" ] || return 0
  save "$1-release.txt" echo "$2 $3"
  save "$1-values.yaml" helm get values "$2" --namespace "$3" --all --output yaml
  save "$1-manifest.yaml" helm get manifest "$2" --namespace "$3"
}

stop_controller() {
  say '1. Stop the Rust controller: no node starts another step'
  [ -n "$(k get deployment brupop-controller-deployment --ignore-not-found -o name)" ] || return 0
  k scale deployment brupop-controller-deployment --replicas=0
  k wait --for=delete pod -l "$component=brupop-controller" --timeout="${timeout}s"
}

# A step is under way until the current state is the desired one. After a failure an agent repeats the step, so the
# desired state becomes Idle, as the Rust controller would have set it.
finish_steps() {
  say '2. Wait for the steps that are under way'
  local deadline=$((SECONDS + timeout)) name desired current waiting
  [ -n "$(k get daemonset brupop-agent --ignore-not-found -o name)" ] || return 0
  while :; do
    waiting=
    while read -r name desired current; do
      case "$desired $current" in 'Idle Idle' | 'Idle -') ;; *) remember "$name" ;; esac
      [ "$current" != - ] && [ "$desired" != "$current" ] || continue
      waiting="$waiting $name($desired)"
      [ "$current" != ErrorReset ] || [ "$desired" = Idle ] || reset "$name"
    done < <(states)
    [ -n "$waiting" ] || return 0
    [ "$SECONDS" -lt "$deadline" ] || die "still under way:$waiting; see docs/takeover.md"
    sleep 2
  done
}

# Remembers a node that was updating: a cordon on it is the Rust operator's.
remember() { grep -qxF "${1#brs-}" "$backup/updating.txt" 2>/dev/null || say "${1#brs-}" >>"$backup/updating.txt"; }

reset() {
  k patch "$shadows" "$1" --type merge \
    -p "{\"spec\":{\"state\":\"Idle\",\"version\":null,\"state_transition_timestamp\":\"$(now)\"}}"
}

# Objects that were stored as v1 are written again, as v2, while the webhook of the Rust operator can convert them. The
# labels and annotations by which Argo CD and Flux track the definition go, so that they do not prune it.
store_as_v2() {
  say '3. Store all shadows as v2, and remove the conversion webhook'
  local attempt
  if kubectl get crd "$crd" -o jsonpath='{.status.storedVersions[*]}' | grep -qw v1 && [ -n "$(states)" ]; then
    for attempt in 1 2 3 4 5; do
      k get "$shadows" -o yaml | k replace -f - && break
      [ "$attempt" -lt 5 ] || die 'the shadows could not be stored as v2; is the Rust API server running?'
      sleep 2
    done
  fi
  kubectl patch crd "$crd" --type json -p '[{"op":"replace","path":"/spec/conversion","value":{"strategy":"None"}}]'
  kubectl patch crd "$crd" --subresource status --type merge -p '{"status":{"storedVersions":["v2"]}}'
  kubectl annotate crd "$crd" cert-manager.io/inject-ca-from- argocd.argoproj.io/tracking-id-
  kubectl label crd "$crd" app.kubernetes.io/instance- kustomize.toolkit.fluxcd.io/name- helm.toolkit.fluxcd.io/name-
}

# Without its records, Helm can no longer delete the definition, and all shadows with it.
forget_crd_release() {
  say '4. Make Helm forget the release of the definition'
  local release
  release=$(annotation meta.helm.sh/release-name crd "$crd")
  [ -n "$release" ] || return 0
  kubectl delete secret -l "owner=helm,name=$release" \
    --namespace "$(annotation meta.helm.sh/release-namespace crd "$crd")"
}

remove_workloads() {
  say '5. Remove the agents, then the rest of the Rust operator'
  local release release_namespace
  release=$(annotation meta.helm.sh/release-name daemonset brupop-agent)
  release_namespace=$(annotation meta.helm.sh/release-namespace daemonset brupop-agent)
  if [ -z "$release" ] && [ -f "$backup/operator-release.txt" ]; then
    read -r release release_namespace <"$backup/operator-release.txt"
  fi
  k delete daemonset brupop-agent --ignore-not-found
  k wait --for=delete pod -l "$component=agent" --timeout="${timeout}s"
  [ -z "$release" ] || helm uninstall "$release" --namespace "$release_namespace" --ignore-not-found
  remove_by_name
  k wait --for=delete pod -l "$component=apiserver" --timeout="${timeout}s"
}

# What its manifest creates, and what an interrupted run left.
remove_by_name() {
  local of
  k delete deployment brupop-apiserver brupop-controller-deployment --ignore-not-found
  k delete service brupop-apiserver brupop-controller-server --ignore-not-found
  for of in agent apiserver controller; do
    k delete serviceaccount "brupop-$of-service-account" --ignore-not-found
    kubectl delete clusterrolebinding "brupop-$of-role-binding" --ignore-not-found
    kubectl delete clusterrole "brupop-$of-role" --ignore-not-found
  done
  kubectl delete clusterrolebinding brupop-apiserver-auth-delegator-role-binding --ignore-not-found
  kubectl delete priorityclass brupop-controller-high-priority --ignore-not-found
  kubectl get crd certificates.cert-manager.io --ignore-not-found -o name | grep -q . || return 0
  k delete certificates.cert-manager.io brupop-apiserver-certificate brupop-apiserver-client-certificate \
    brupop-selfsigned-ca --ignore-not-found
  k delete issuers.cert-manager.io brupop-root-certificate-issuer selfsigned-issuer --ignore-not-found
}

# The annotations record what this operator owns on a Node, so its first agent there removes it.
adopt_node() {
  local node=$1 found
  local labels="{{with .metadata.labels}}{{index . \"$exclusion\"}}{{end}}"
  found=$(kubectl get node "$node" --ignore-not-found -o go-template="{{if .spec.unschedulable}}cordon{{end}} $labels")
  case $found in cordon*) kubectl annotate node "$node" --overwrite "brupop.bottlerocket.aws/cordoned=$(now)" ;; esac
  case $found in
    *True) kubectl annotate node "$node" --overwrite "brupop.bottlerocket.aws/excluded-from-load-balancers=$(now)" ;;
  esac
}

adopt_nodes() {
  say '6. Record the cordons of interrupted updates as owned by the operator, and end these updates'
  local node name desired current
  if [ -f "$backup/updating.txt" ]; then
    while read -r node; do adopt_node "$node"; done <"$backup/updating.txt"
  fi
  while read -r name desired current; do
    [ "$desired" = Idle ] || reset "$name"
  done < <(states)
  for node in $(cordoned); do
    [ -n "$(annotation brupop.bottlerocket.aws/cordoned node "$node")" ] ||
      say "$node stays cordoned: it was not updating. If nobody needs that: kubectl uncordon $node"
  done
}

prepare() {
  require_rust_operator
  save_all
  stop_controller
  finish_steps
  store_as_v2
  forget_crd_release
  remove_workloads
  adopt_nodes
  say "Ready. Install the chart into $namespace now, with --take-ownership --force-conflicts: docs/takeover.md"
}

[ $# -eq 0 ] || die "unknown option or missing value: $*"
case $command in
  check | prepare) "$command" ;;
  *) die 'usage: takeover.sh check|prepare [--namespace NAME] [--backup FOLDER] [--timeout SECONDS]' ;;
esac
