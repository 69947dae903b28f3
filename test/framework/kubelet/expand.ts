/**
 * Replaces `$(NAME)` as Kubernetes does in env values, commands and args: a name that `lookup` does
 * not know stays as written, and `$$` is a plain `$`, so `$$(NAME)` is `$(NAME)`. Source:
 * k8s.io/kubernetes third_party/forked/golang/expansion.
 */
export function expand(text: string, lookup: (name: string) => string | undefined): string {
  return text.replaceAll(/\$(?:\$|\(([^)]*)\))/g, (whole: string, name: string | undefined) => {
    if (name === undefined) return '$';
    return lookup(name) ?? whole;
  });
}
