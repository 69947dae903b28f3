/** metav1.LabelSelector: all of its requirements must hold. */
export interface LabelSelector {
  readonly matchLabels?: Readonly<Record<string, string>>;
  readonly matchExpressions?: readonly Requirement[];
}

interface Requirement {
  readonly key: string;
  readonly operator: string;
  readonly values?: readonly string[];
}

/** True when `selector` selects an object with these labels: an empty selector selects all, an absent one none. */
export function selects(selector: LabelSelector | null | undefined, labels: Readonly<Record<string, string>>): boolean {
  if (selector == null) return false;
  const { matchLabels = {}, matchExpressions = [] } = selector;
  return (
    Object.entries(matchLabels).every(([key, value]) => labels[key] === value) &&
    matchExpressions.every((requirement) => holds(requirement, labels))
  );
}

/** The four operators of LabelSelectorRequirement. One of another release is taken to select: what it protects is then left alone. */
function holds({ key, operator, values = [] }: Requirement, labels: Readonly<Record<string, string>>): boolean {
  const value = labels[key];
  switch (operator) {
    case 'In':
      return value !== undefined && values.includes(value);
    case 'NotIn':
      return value === undefined || !values.includes(value);
    case 'DoesNotExist':
      return value === undefined;
    case 'Exists':
      return value !== undefined;
    default:
      return true;
  }
}
