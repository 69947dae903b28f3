# shellcheck shell=bash
# What Helm has on record.

# Prints RELEASE NAMESPACE as the annotations of an object have them: named_by KIND NAME
named_by() {
  printf '%s %s\n' "$(annotation meta.helm.sh/release-name "$@")" "$(annotation meta.helm.sh/release-namespace "$@")"
}

# Prints a field of the chart of a release: chart_field FIELD RELEASE NAMESPACE
# Fields of dependencies are indented.
chart_field() {
  helm get metadata "$2" --namespace "$3" --output yaml | sed -n "s/^$1: *//p" | tr -d '"'
}

# Finds what Helm has on record, as lines RELEASE NAMESPACE. The annotations of an object name the last release that took
# it over, and not each one that would delete it. But anyone who may write Secrets in some namespace can write such a
# record, and `helm uninstall` deletes and creates whatever it says: only the release that the Deployment names is
# uninstalled, and only if it is of the operator's own chart: with one that has it as a dependency, all the rest would go.
# Of the others, only the records are deleted. The one that the definition names is the first, for the backup.
find_releases() {
  operator_release= crd_releases= our_releases= other_charts=
  local chart records release_namespace release manifest of_controller of_crd
  of_controller=$(named_by deployment brupop-controller-deployment)
  of_crd=$(named_by crd "$crd")
  if ! command -v helm >/dev/null; then
    # Records that are left could delete the definition, and all shadows, at any time.
    [ "$of_controller$of_crd" = '  ' ] ||
      die "the Rust operator was installed with Helm: run this where helm is installed; nothing was changed"
    return 0
  fi
  # The table that the API server makes has no contents of the Secrets.
  records=$(kubectl get secrets -A -l owner=helm --no-headers -L name --ignore-not-found | awk '{ print $1, $NF }' | sort -u)
  while read -r release_namespace release; do
    [ -n "$release" ] || continue
    if ! manifest=$(helm get manifest "$release" --namespace "$release_namespace"); then
      say "Helm cannot read its release $release in $release_namespace; it stays as it is" >&2
    elif grep -q '^  name: brupopconfigs.brupop.bottlerocket.aws$' <<<"$manifest"; then
      [ "$release_namespace" != "$namespace" ] || our_releases="$our_releases$release $release_namespace"$'\n'
    else
      if [ "$release $release_namespace" = "$of_controller" ]; then
        chart=$(chart_field chart "$release" "$release_namespace")
        case $chart in
          bottlerocket-update-operator) operator_release=$of_controller ;;
          *) other_charts="$other_charts$release in $release_namespace (chart $chart)"$'\n' ;;
        esac
      fi
      grep -q "^  name: $crd\$" <<<"$manifest" || continue
      case "$release $release_namespace" in
        "$of_crd") crd_releases=$of_crd$'\n'$crd_releases ;;
        *) crd_releases="$crd_releases$release $release_namespace"$'\n' ;;
      esac
    fi
  done <<<"$records"
}

# With the Rust operator, the next upgrade of such a release would create it again. The first one without it deletes by
# name what the release had, also what another installation has created since.
say_other_charts() {
  [ -z "$other_charts" ] || say "Upgrade this Helm release, without the Rust operator in its chart, after prepare and" \
    "before step 2; later that would delete agents and API servers of this operator: ${other_charts%$'\n'}"
}

# Deletes the records of releases, and none of their objects: forget_releases LINES
forget_releases() {
  local release release_namespace
  while read -r release release_namespace; do
    [ -z "$release" ] || kubectl delete secret -l "owner=helm,name=$release" --namespace "$release_namespace"
  done <<<"$1"
}
