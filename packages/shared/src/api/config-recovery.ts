/** Fields of the spec of a BrupopConfig for pods that wait in CrashLoopBackOff although what they need has recovered. */
import * as v from 'valibot';
import { namespaceName, shortName } from './config-values.ts';
import { podSelector } from './label-selector.ts';
import { described, type Infer, matching, oneOf, whole } from './schema.ts';
import { always, duration, field, fields, group, listOf, mapOf } from './spec-schema.ts';

/** Of what recovers. */
export const RECOVERY_KINDS = ['Node', 'Service'] as const;
export type RecoveryKind = (typeof RECOVERY_KINDS)[number];
/** At once. */
export const MAX_RECOVERIES = 50;
/** Of one recovery. */
export const MAX_RECORDED_PODS = 100;
const MAX_SERVICES = 20;

const serviceName = matching(/^[a-z]([-a-z0-9]*[a-z0-9])?$/, 63, 'the name of a Service, such as postgres');

const service = fields({
  name: described(shortName, 'The name of the entry, once in this list.'),
  namespace: described(
    namespaceName,
    "The namespace of the Service and of its pods. The chart's value recovery.namespaces has to have it as well, which grants the " +
      'rights; otherwise the entry is refused.',
  ),
  service: described(serviceName, 'The name of the Service.'),
  podSelectors: described(
    v.pipe(listOf(podSelector, 5), v.minLength(1, 'at least one selector')),
    'Which pods need the Service, each by at least one label that it must have, at most 5: those that any of them selects.',
    { minItems: 1 },
  ),
});
export type RecoveryService = Infer<typeof service>;

export const recovery = group(
  'Pods that wait in CrashLoopBackOff although what they need has recovered. Kubelet restarts them up to five minutes later; instead, ' +
    'they are evicted, so that their controller creates new ones at once, each pod once and within its disruption budgets. Pods without a ' +
    'controller, and with the label or annotation brupop.bottlerocket.aws/drain=skip, are left.',
  {
    updatedNodes: field(
      oneOf(['Leave', 'Restart']),
      'Restart: when the DaemonSets of a node in health.trustedNamespaces are Ready again after its update, pods on it that wait in ' +
        "CrashLoopBackOff are evicted, in the namespaces of the chart's value recovery.namespaces. Leave: they are not.",
      always('Leave'),
    ),
    services: field(
      mapOf(service, MAX_SERVICES),
      `Services, at most ${MAX_SERVICES}. When one had no ready endpoint and has one again, pods that need it and wait in CrashLoopBackOff are evicted.`,
      always([]),
    ),
    watchFor: field(
      duration('30s', '30m'),
      'How long pods are evicted after a recovery. A further recovery of the same Service or node extends it, up to an hour after the first.',
      always('5m'),
    ),
    maxPerMinute: field(
      whole(1, 60),
      'How many evictions are requested in a minute, for all recoveries together.',
      always(10),
    ),
  },
);
