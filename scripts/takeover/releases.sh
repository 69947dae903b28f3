# shellcheck shell=bash
# What Helm has on record.

# Finds what Helm has on record, as lines RELEASE NAMESPACE. The annotations of an object name the last release that took
# it over, and not each one that would delete it.
find_releases() {
  operator_release= crd_releases= our_releases=
  local records release_namespace release manifest
  command -v helm >/dev/null || return 0
  # The table that the API server makes has no contents of the Secrets.
  records=$(kubectl get secrets -A -l owner=helm --no-headers -L name --ignore-not-found | awk '{ print $1, $NF }' | sort -u)
  while read -r release_namespace release; do
    [ -n "$release" ] || continue
    if ! manifest=$(helm get manifest "$release" --namespace "$release_namespace"); then
      say "Helm cannot read its release $release in $release_namespace; it stays as it is" >&2
    elif grep -q '^  name: brupopconfigs.brupop.bottlerocket.aws$' <<<"$manifest"; then
      [ "$release_namespace" != "$namespace" ] || our_releases="$our_releases$release $release_namespace"$'\n'
    else
      ! grep -q '^  name: brupop-controller-deployment$' <<<"$manifest" || operator_release="$release $release_namespace"
      ! grep -q "^  name: $crd\$" <<<"$manifest" || crd_releases="$crd_releases$release $release_namespace"$'\n'
    fi
  done <<<"$records"
}

# Deletes the records of releases, and none of their objects: forget_releases LINES
forget_releases() {
  local release release_namespace
  while read -r release release_namespace; do
    [ -z "$release" ] || kubectl delete secret -l "owner=helm,name=$release" --namespace "$release_namespace"
  done <<<"$1"
}
