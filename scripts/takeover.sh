#!/usr/bin/env bash
# Prepares a cluster that runs the Rust operator (Brupop 1.x) for this one: docs/takeover.md.
#
#   scripts/takeover.sh check      reads only: what is there, and what `prepare` would do
#   scripts/takeover.sh prepare    stops the Rust operator between two steps, and removes it; keeps the shadows
#   scripts/takeover.sh back       ends the cordons and exclusions that `prepare` adopted, if you go back
#
# Options: --namespace NAME  of the Rust operator (default brupop-bottlerocket-aws)
#          --backup FOLDER   where to save what is removed (default ./brupop-backup)
#          --timeout SECONDS how long to wait for steps under way, and for pods to end (default 1800)
#          --leave-out NODE  do not wait for the agent of this node; may be repeated
#
# Needs bash, kubectl and, if the Rust operator was installed with Helm, helm. Every command may be interrupted and
# repeated. While the Rust controller runs, `prepare` starts from the beginning and uses nothing of an earlier run.
set -euo pipefail
export LC_ALL=C

namespace=brupop-bottlerocket-aws
backup=./brupop-backup
timeout=1800
left_out=
command=${1:-}
[ $# -eq 0 ] || shift
while [ $# -gt 1 ]; do
  case $1 in
    --namespace) namespace=$2 ;;
    --backup) backup=$2 ;;
    --timeout) timeout=$2 ;;
    --leave-out) left_out="$left_out $2" ;;
    *) break ;;
  esac
  shift 2
done

crd=bottlerocketshadows.brupop.bottlerocket.aws
shadows=bottlerocketshadows.v2.brupop.bottlerocket.aws
component=brupop.bottlerocket.aws/component
labelled=bottlerocket.aws/updater-interface-version=2.0.0
# On every object of this operator's chart, and on none of the Rust operator's.
ours=app.kubernetes.io/part-of=bottlerocket-update-operator
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

say() { printf '%s\n' "$*"; }
die() { printf 'takeover: %s\n' "$*" >&2; exit 1; }
k() { kubectl --namespace "$namespace" "$@"; }
now() { date -u +%Y-%m-%dT%H:%M:%SZ; }

. "$here/takeover/nodes.sh"
. "$here/takeover/releases.sh"
. "$here/takeover/leftovers.sh"

# Prints an annotation of an object, or nothing: annotation KEY KIND NAME
annotation() {
  k get "$2" "$3" --ignore-not-found \
    -o go-template="{{with .metadata.annotations}}{{with index . \"$1\"}}{{.}}{{end}}{{end}}"
}

# Prints the component that a workload selects, or nothing: selected KIND NAME
selected() {
  k get "$1" "$2" --ignore-not-found \
    -o go-template="{{with .spec.selector.matchLabels}}{{with index . \"$component\"}}{{.}}{{end}}{{end}}"
}

# Prints NAME DESIRED CURRENT SINCE of each shadow. CURRENT is "-" before the first report; a controller of this operator
# beside the Rust one has already written conditions then.
states() {
  local status='{{with .status}}{{with .current_state}}{{.}}{{else}}-{{end}}{{else}}-{{end}}'
  local since='{{with .spec.state_transition_timestamp}}{{.}}{{else}}-{{end}}'
  k get "$shadows" -o go-template='{{range .items}}{{.metadata.name}} {{.spec.state}} '"$status $since"'{{"\n"}}{{end}}'
}

# Prints NAME NODE of the pods of the Rust operator: rust_pods COMPONENT PREFIX-OF-NAMES
# Its controller has the label of this operator's, so the names distinguish them.
rust_pods() {
  k get pods -l "$component=$1" \
    -o go-template='{{range .items}}{{.metadata.name}} {{with .spec.nodeName}}{{.}}{{else}}-{{end}}{{"\n"}}{{end}}' |
    awk -v prefix="$2" 'index($1, prefix) == 1'
}

# Waits until these pods have ended, other than on nodes that are left out.
await_end() {
  local deadline=$((SECONDS + timeout)) pods pod node left
  while :; do
    pods=$(rust_pods "$@")
    left=
    while read -r pod node; do
      [ -z "$pod" ] || is_left_out "$node" || left="$left $pod($node)"
    done <<<"$pods"
    [ -n "$left" ] || return 0
    [ "$SECONDS" -lt "$deadline" ] || die "pods have not ended:$left; see docs/takeover.md"
    sleep 2
  done
}

# The chart refuses an older Kubernetes, and would do so only after the Rust operator was removed.
require_kubernetes() {
  local oldest minor
  oldest=$(sed -n "s/^kubeVersion: '>= 1\.\([0-9]*\).*/\1/p" "$here/../charts/bottlerocket-update-operator/Chart.yaml")
  minor=$(kubectl get --raw /version | sed -n 's/.*"minor": *"\([0-9]*\).*/\1/p')
  [ "${minor:-$oldest}" -ge "$oldest" ] ||
    die "this operator needs Kubernetes 1.$oldest or newer, found 1.$minor; nothing was changed"
}

require_rust_operator() {
  kubectl get crd "$crd" >/dev/null || die "the definition $crd does not exist; there is nothing to take over"
  local agent others bound other rust
  agent=$(selected daemonset brupop-agent)
  rust=$(kubectl get clusterrolebinding brupop-controller-role-binding --ignore-not-found \
    -o jsonpath='{.subjects[0].namespace}')
  [ -z "$rust" ] || [ "$rust" = "$namespace" ] ||
    die "the Rust operator is in the namespace $rust and not in $namespace; repeat with --namespace $rust; nothing was changed"
  others=$(kubectl get deployments -A -l "$ours" --field-selector "metadata.namespace!=$namespace" \
    -o custom-columns=NAMESPACE:.metadata.namespace --no-headers --ignore-not-found | sort -u)
  # Anyone may label a Deployment of their namespace; without the bindings of the chart it is not this operator.
  bound=$(kubectl get clusterrolebindings -l "$ours" -o jsonpath='{.items[*].subjects[*].namespace}')
  for other in $others; do
    [[ " $bound " != *" $other "* ]] ||
      die "this operator is also installed in $other; first uninstall it there with helm uninstall"
  done
  case $agent in
    agent) ;;
    '')
      [ -z "$(selected deployment brupop-controller)" ] ||
        die "the Rust operator is gone from $namespace, and this one is partly installed: finish with helm upgrade"
      ;;
    *) die "brupop-agent in $namespace is not that of the Rust operator; nothing was changed" ;;
  esac
}

check() {
  require_kubernetes
  require_rust_operator
  find_releases
  say 'shadows (name, desired state, current state, since):'
  states | sed 's/^/  /'
  say 'managed nodes that are cordoned:'
  cordoned | sed 's/^/  /'
  say "Helm release of the operator: $operator_release"
  say "Helm release of the definition: $(tr '\n' ' ' <<<"$crd_releases")"
  say_other_charts
  say "stored versions of the definition: $(kubectl get crd "$crd" -o jsonpath='{.status.storedVersions[*]}')"
  say "installed beside the Rust operator, and removed by prepare: $(leftovers | tr '\n' ' ')"
}

# Saves objects once; a repeated run keeps what the first one saw.
save() {
  local file=$backup/$1
  shift
  [ -s "$file" ] || { "$@" >"$file.part" && mv "$file.part" "$file"; }
}

save_all() {
  save nodes.txt kubectl get nodes -l "$labelled" -o name
  save cordoned.txt cordoned
  save crd.yaml kubectl get crd "$crd" -o yaml
  save shadows.yaml k get "$shadows" -o yaml
  save workloads.yaml k get daemonsets,deployments,services,serviceaccounts,configmaps -o yaml
  save_release operator "$operator_release"
  save_release crd "$crd_releases"
}

# Prints the version of the chart of a release: chart_version RELEASE NAMESPACE
chart_version() { chart_field version "$@"; }

# save_release FILE "RELEASE NAMESPACE"; the file that names the release is the last one, so it is complete.
save_release() {
  local release release_namespace
  read -r release release_namespace <<<"$2"
  [ -n "$release" ] || return 0
  save "$1-values.yaml" helm get values "$release" --namespace "$release_namespace" --all --output yaml
  save "$1-version.txt" chart_version "$release" "$release_namespace"
  save "$1-manifest.yaml" helm get manifest "$release" --namespace "$release_namespace"
  save "$1-release.txt" echo "$release $release_namespace"
}

stop_controller() {
  say '2. Stop the Rust controller: no node starts another step'
  [ -n "$(k get deployment brupop-controller-deployment --ignore-not-found -o name)" ] || return 0
  k scale deployment brupop-controller-deployment --replicas=0
  await_end brupop-controller brupop-controller-deployment-
}

# Objects that were stored as v1 are written again, as v2, while the webhook of the Rust operator can convert them. The
# labels and annotations by which Argo CD and Flux track the definition go, so that they do not prune it.
store_as_v2() {
  say '4. Store all shadows as v2, and remove the conversion webhook'
  local attempt versions
  versions=$(kubectl get crd "$crd" -o jsonpath='{.status.storedVersions[*]}')
  if grep -qw v1 <<<"$versions" && [ -n "$(states)" ]; then
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
  say '5. Make Helm forget the release of the definition'
  forget_releases "$crd_releases"
}

remove_workloads() {
  say '6. Remove the agents, then the rest of the Rust operator'
  local release= release_namespace=
  [ ! -f "$backup/operator-release.txt" ] || read -r release release_namespace <"$backup/operator-release.txt"
  k delete daemonset brupop-agent --ignore-not-found --wait=false
  await_end agent brupop-agent-
  [ -z "$release" ] || helm uninstall "$release" --namespace "$release_namespace" --ignore-not-found
  remove_by_name
  await_end apiserver brupop-apiserver-
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

prepare() {
  require_kubernetes
  require_rust_operator
  find_releases
  start
  remove_leftovers
  save_all
  stop_controller
  finish_steps
  adopt_nodes
  store_as_v2
  forget_crd_release
  # It is found by a workload, so a run that is repeated from here on no longer knows it.
  say_other_charts
  remove_workloads
  say_kept
  say "Ready. Install the chart into $namespace now, at first without a controller: step 2 of docs/takeover.md"
}

[ $# -eq 0 ] || die "unknown option or missing value: $*"
[[ $timeout =~ ^(0|[1-9][0-9]*)$ ]] || die "--timeout: expected seconds, such as 1800, found $timeout"
case $command in
  check | prepare | back) "$command" ;;
  *) die 'usage: takeover.sh check|prepare|back [--namespace NAME] [--backup FOLDER] [--timeout SECONDS] [--leave-out NODE]' ;;
esac
