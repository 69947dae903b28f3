/** A spec of a BrupopConfig with one mistake. */
export interface InvalidSpec {
  readonly spec: object;
  /** The field that the API server and the controller name. */
  readonly field: string;
  /** The error message of the API server. */
  readonly message: RegExp;
  /** Why the controller accepts it nevertheless. Undefined: it rejects it. */
  readonly taken?: string;
}

/** What an item of a list has besides the field in question. */
export const ITEMS: Readonly<Record<string, object>> = {
  windows: { schedule: '0 2 * * *', duration: '4h' },
  blackouts: { from: '2026-12-20T00:00:00Z', to: '2027-01-06T00:00:00Z' },
  checks: { name: 'smoke', when: ['After'], job: { cronJob: 'smoke' } },
  before: { name: 'standby', job: { cronJob: 'enter-standby' } },
  after: { name: 'standby', job: { cronJob: 'exit-standby' } },
  services: { name: 'db', namespace: 'shop', service: 'db', podSelectors: [{ matchLabels: { app: 'api' } }] },
  podSelectors: { matchLabels: { app: 'api' } },
  notifications: { name: 'ops', format: 'JSON', events: ['Frozen'], address: 'https://events.example.com' },
  labels: { name: 'node' },
  matchers: { name: 'cluster', value: 'prod' },
  dependents: { name: 'ca', namespace: 'kube-system', kind: 'Deployment', target: 'cluster-autoscaler' },
  quorums: { name: 'db', namespace: 'db', podSelector: { matchLabels: { app: 'db' } }, members: 99 },
  matchExpressions: { key: 'pool', operator: 'In', values: ['web'] },
};

/**
 * A spec with this value in a field such as `maintenance.windows[0].schedule`; undefined: without
 * the field.
 */
export function specWith(field: string, value: unknown): object {
  const [, name = '', list, rest = ''] = /^(\w+)(\[0\])?\.?(.*)$/u.exec(field) ?? [];
  const inner = rest === '' ? value : specWith(rest, value);
  if (list === undefined) return { [name]: inner };
  return { [name]: [rest === '' ? inner : { ...ITEMS[name], ...(inner as object) }] };
}

/** A spec with a wrong value in a field. */
export function wrong(field: string, value: unknown, message: RegExp, taken?: string): InvalidSpec {
  return { spec: specWith(field, value), field: `spec.${field}`, message, ...(taken !== undefined && { taken }) };
}

/** As {@link wrong}, with the path of the mistake within the field. */
export function wrongAt(path: string, ...rest: Parameters<typeof wrong>): InvalidSpec {
  return { ...wrong(...rest), field: `spec.${rest[0]}${path}` };
}

/** Reasons for which the controller accepts what the API server rejects. */
export const LENGTHS = 'a long text or list does no harm';
export const OTHER_RELEASE = 'fields that there are not may be those of another release';
export const TWICE = 'twice is as good as once';
export const SAME = 'it can mean one thing only';
