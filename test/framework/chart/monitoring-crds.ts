/**
 * Definitions of the Prometheus operator's objects with only the fields that the chart uses, named
 * and typed as in its own (monitoring.coreos.com/v1), so that strict validation rejects any other.
 */
const strings = { type: 'object', additionalProperties: { type: 'string' } };
const requirement = {
  type: 'object',
  required: ['key', 'operator'],
  properties: {
    key: { type: 'string' },
    operator: { type: 'string' },
    values: { type: 'array', items: { type: 'string' } },
  },
};
const selector = {
  type: 'object',
  properties: { matchLabels: strings, matchExpressions: { type: 'array', items: requirement } },
};
const duration = '^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$';
const actions = ['replace', 'keep', 'drop', 'hashmod', 'labelmap', 'labeldrop', 'labelkeep', 'lowercase', 'uppercase'];
const relabelings = {
  type: 'array',
  items: {
    type: 'object',
    properties: {
      action: { type: 'string', enum: [...actions, 'keepequal', 'dropequal'] },
      sourceLabels: { type: 'array', items: { type: 'string' } },
      separator: { type: 'string' },
      targetLabel: { type: 'string' },
      regex: { type: 'string' },
      modulus: { type: 'integer' },
      replacement: { type: 'string' },
    },
  },
};
const endpoint = {
  type: 'object',
  properties: {
    port: { type: 'string' },
    interval: { type: 'string', pattern: duration },
    scrapeTimeout: { type: 'string', pattern: duration },
    relabelings,
    metricRelabelings: relabelings,
  },
};

const rule = {
  type: 'object',
  required: ['expr'],
  properties: {
    alert: { type: 'string' },
    expr: { type: 'string' },
    for: { type: 'string', pattern: duration },
    labels: strings,
    annotations: strings,
  },
};
const rules = {
  type: 'object',
  properties: {
    groups: {
      type: 'array',
      items: {
        type: 'object',
        required: ['name'],
        properties: { name: { type: 'string' }, rules: { type: 'array', items: rule } },
      },
    },
  },
};

function monitor(kind: string, endpoints: string): object {
  return definition(kind, {
    type: 'object',
    required: ['selector', endpoints],
    properties: { selector, [endpoints]: { type: 'array', items: endpoint } },
  });
}

function definition(kind: string, spec: object): object {
  const plural = `${kind.toLowerCase()}s`;
  const schema = { openAPIV3Schema: { type: 'object', required: ['spec'], properties: { spec } } };
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${plural}.monitoring.coreos.com` },
    spec: {
      group: 'monitoring.coreos.com',
      scope: 'Namespaced',
      names: { kind, plural, singular: kind.toLowerCase(), listKind: `${kind}List` },
      versions: [{ name: 'v1', served: true, storage: true, schema }],
    },
  };
}

export const monitoringCrds = {
  apiVersion: 'v1',
  kind: 'List',
  items: [
    monitor('ServiceMonitor', 'endpoints'),
    monitor('PodMonitor', 'podMetricsEndpoints'),
    definition('PrometheusRule', rules),
  ],
};
