# shellcheck shell=bash
# Repairs an installation of this operator beside the Rust one. It cannot be complete: brupop-agent and brupop-apiserver
# have selectors that cannot be changed. What it left: two controllers, admission policies that deny the Rust operator
# its writes, and the Service of the Rust API server, which selects pods that do not exist.

# Prints what of this operator must not run beside the Rust one. Its accounts and roles do no harm.
leftovers() {
  k get deployments,networkpolicies,poddisruptionbudgets -l "$ours" -o name --ignore-not-found &&
    kubectl get validatingadmissionpolicies,validatingadmissionpolicybindings -l "$ours" -o name --ignore-not-found
}

# A failed installation is a release, too. Its record goes first, so that nothing deletes what it took over.
remove_leftovers() {
  say '1. Remove what was installed of this operator beside the Rust one'
  local found
  found=$(leftovers)
  forget_releases "$our_releases"
  if [ -n "$found" ]; then
    k delete deployments,networkpolicies,poddisruptionbudgets -l "$ours"
    kubectl delete validatingadmissionpolicybindings,validatingadmissionpolicies -l "$ours"
  fi
  [ "$(selected deployment brupop-apiserver)" != apiserver ] || restore_service
}

# The agents of the Rust operator finish their steps through its API server.
restore_service() {
  local selects port ports
  selects=$(k get service brupop-apiserver --ignore-not-found -o go-template="{{index .spec.selector \"$component\"}}")
  case $selects in apiserver | '') return 0 ;; esac
  port=$(k get deployment brupop-apiserver -o jsonpath='{.spec.template.spec.containers[0].ports[0].containerPort}')
  ports='{{range $i, $_ := .spec.ports}}{{if $i}},{{end}}{"name":"p{{.port}}","port":{{.port}},"targetPort":PORT}{{end}}'
  ports=$(k get service brupop-apiserver -o go-template="$ports")
  k patch service brupop-apiserver --type merge \
    -p "{\"spec\":{\"selector\":{\"$component\":\"apiserver\"},\"ports\":[${ports//PORT/${port:-8443}}]}}"
}
