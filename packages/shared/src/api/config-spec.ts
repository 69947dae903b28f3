/**
 * The spec of a BrupopConfig, which users write. Each field is defined here once: its type and
 * range, its description, its default in this release, and what it means in a record that lacks it
 * (`absent`, ADR 0019). Types, readers, the definition of the resource and the reference in
 * `docs/configuration.md` come from here. A new default changes `default` only: `absent` never
 * changes. Rules across fields that the API server checks are in `scripts/crds/brupopconfigs.yaml`.
 */
import type * as v from 'valibot';
import { REBOOT_TIMEOUT_MIN_MS, STEP_LIMITS_MS } from './deadlines.ts';
import { DRAIN } from './config-drain.ts';
import { blackout, nodeLimit, numberOfNodes, reason, timeZone, window } from './config-values.ts';
import { notifications } from './config-notifications.ts';
import { recovery } from './config-recovery.ts';
import { QUORUM_RULES, quorums } from './config-quorums.ts';
import { SAFETY } from './config-safety.ts';
import { silences } from './config-silences.ts';
import { labelSelector } from './label-selector.ts';
import { flag, type Infer, isFields, oneOf, whole } from './schema.ts';
import {
  always,
  defaultsOf,
  duration,
  field,
  fields,
  formatDuration,
  group,
  listOf,
  merged,
  type Reading,
  readSpec,
  requireThat,
} from './spec-schema.ts';
import { sameVersion, version } from './version.ts';

const SPEC = {
  paused: field(flag(), 'True keeps every node from starting an update.', always(false)),
  pauseMode: field(
    oneOf(['Finish', 'Interrupt']),
    'What a pause does to nodes that are updating. Finish: they finish. Interrupt: the update is cancelled on those whose ' +
      'host was not yet asked to reboot; they are uncordoned, and start again after the pause. Without paused it has no effect.',
    always('Finish'),
  ),
  pauseReason: field(
    reason(1024),
    'Why updates are paused, shown on every node that waits for the end of the pause. Without paused it has no effect.',
  ),
  maintenance: group(
    'When nodes may start updates. A node whose drain has started finishes its update; a node that has only staged its ' +
      'version waits for the next window.',
    {
      timeZone: field(timeZone, 'IANA time zone of the schedules, such as Europe/Berlin.', always('UTC')),
      windows: field(
        listOf(window, 50),
        'Windows in which nodes may start updates, each node only when its whole update is expected to fit. Overlapping ' +
          'or adjacent windows are merged. With none, updates may start at any time.',
        always([]),
      ),
      blackouts: field(
        listOf(blackout, 100),
        'Times in which no node starts an update or its drain, also within a window.',
        always([]),
      ),
      updateEstimate: field(
        duration('1m', '24h'),
        'How long the update of a node is expected to take until some were measured. After that the 90th percentile of ' +
          'recent updates is used.',
        always('30m'),
      ),
      margin: field(
        duration('0s', '24h'),
        'How much longer than expected an update may take before the window closes.',
        always('10m'),
      ),
    },
  ),
  concurrency: group('How many nodes may be unavailable at once. The strictest limit applies.', {
    maxUpdating: field(
      nodeLimit,
      'Nodes that may be updating at once: a number from 1 (such as 3), or a percentage of the managed nodes from "1%" to ' +
        '"100%", rounded down but at least 1 node.',
      always(1),
    ),
    maxUnavailable: field(
      nodeLimit,
      'Nodes that may be updating or unavailable for any other reason (not Ready, cordoned by another actor, being deleted) ' +
        'at once: a number from 1, or a percentage of the managed nodes from "1%" to "100%", rounded down but at least 1 ' +
        'node. By default other reasons do not count.',
    ),
    maxPerZone: field(
      numberOfNodes,
      'Nodes of one zone (label topology.kubernetes.io/zone; nodes without it are a zone of their own) that may be updating ' +
        'or unavailable for any other reason at once, from 1. By default zones do not count.',
    ),
    controlPlane: field(
      oneOf(['OneAtATime', 'Ignored']),
      'OneAtATime: nodes with the label node-role.kubernetes.io/control-plane or node-role.kubernetes.io/etcd (also master and ' +
        'controlplane) update one at a time, and none starts or is drained while another one, managed or not, is not Ready or is being ' +
        'deleted: no disruption budget protects their static pods. Ignored: they count as any other node.',
      { default: 'OneAtATime', absent: 'OneAtATime' },
    ),
    maxZones: field(
      numberOfNodes,
      'Zones in which nodes may be updating at once, from 1. By default zones do not count.',
    ),
  }),
  versions: group(
    'Which versions nodes update to.',
    {
      pin: field(
        version,
        'The version for all nodes, newer or older than theirs, such as 1.21.0. It is set as the version lock of the ' +
          'host; when it is removed, the lock of each host becomes latest. By default nodes update to what their host ' +
          'offers.',
      ),
      minimumAge: field(
        duration('0s', '8760h'),
        'How long a version must have been available in this cluster before nodes start to update to it, such as 72h. A ' +
          'pinned version does not wait.',
        always('0s'),
      ),
      ignoreWaves: field(
        flag(),
        'True makes hosts offer a release at once instead of when its wave starts. False leaves that to the setting of ' +
          'each host.',
        always(false),
      ),
      deny: field(listOf(version, 50, 'set'), 'Versions that no node updates to, at most 50.', always([])),
    },
    requireThat<{ pin: string | undefined; deny: readonly string[] }>(
      'pin',
      'a version that is not one of deny',
      ({ pin, deny }) => !deny.some((one) => sameVersion(one, pin)),
    ),
  ),
  ...DRAIN,
  timeouts: group(
    'How long the steps of an update may take. That of the drain is drain.timeout. A change applies to steps that start ' +
      'after it.',
    {
      stage: field(duration('1m', '24h'), 'How long downloading and writing the new version may take.', {
        default: formatDuration(STEP_LIMITS_MS.Stage),
        absent: '45m',
      }),
      reboot: field(
        duration(formatDuration(REBOOT_TIMEOUT_MIN_MS), '24h'),
        'How long it may take from the reboot until the node runs the new version and is uncordoned.',
        { default: formatDuration(STEP_LIMITS_MS.Reboot), absent: '15m' },
      ),
    },
  ),
  retry: group(
    'When a node that failed is tried again. Errors that a retry cannot fix wait for a user.',
    {
      backoff: field(
        duration('10s', '24h'),
        'The wait after the first failure; it doubles with each. Transient errors wait one fifth as long.',
        always('5m'),
      ),
      maxBackoff: field(duration('10s', '168h'), 'The longest wait, not less than backoff.', always('24h')),
      attempts: field(
        whole(1, 100),
        'How often a node is tried with one version before it waits for a user, from 1 to 100.',
        always(10),
      ),
    },
    requireThat<{ backoff: number; maxBackoff: number }>(
      'maxBackoff',
      'at least backoff',
      ({ backoff, maxBackoff }) => maxBackoff >= backoff,
      ({ maxBackoff }) => formatDuration(maxBackoff),
    ),
  ),
  ...SAFETY,
  recovery,
  notifications,
  silences,
  quorums,
  nodeSelector: field(
    labelSelector,
    'Restricts the managed nodes, beyond the label that makes them so. Nodes that it does not select start no update and ' +
      'are not counted.',
  ),
  order: field(
    oneOf(['Name', 'Random', 'OldestBoot']),
    'Which node goes first, among those with the same priority (a whole number in the annotation ' +
      'brupop.bottlerocket.aws/priority, 0 without it) and as many failures. Name: by name. Random: in an order that ' +
      'differs for each version. OldestBoot: the node that has been up longest. The node of the leading controller goes ' +
      'after all others that had no attempt in the last 24 hours. Nodes with the annotation ' +
      'brupop.bottlerocket.aws/skip are left out, unless its value is false.',
    always('Name'),
  ),
};

/** What a BottlerocketNodeGroup may set for its nodes. */
export const OVERRIDES = {
  paused: SPEC.paused,
  pauseMode: SPEC.pauseMode,
  pauseReason: SPEC.pauseReason,
  maintenance: SPEC.maintenance,
  concurrency: SPEC.concurrency,
  versions: SPEC.versions,
  ...DRAIN,
  timeouts: SPEC.timeouts,
  retry: SPEC.retry,
  monitoring: SPEC.monitoring,
  health: SPEC.health,
  hooks: SPEC.hooks,
  rollout: SPEC.rollout,
  order: SPEC.order,
};

export type Order = Infer<typeof specSchema>['order'];
export const specSchema = fields(SPEC, ...QUORUM_RULES);
export type BrupopConfigSpec = v.InferInput<typeof specSchema>;
/** The spec as it was read. Durations and times are milliseconds. */
export type SpecValues = Infer<typeof specSchema>;

export function readConfigSpec(value: unknown): Reading<SpecValues> {
  return readSpec(specSchema, value);
}

const drainSpec = fields(DRAIN);
export type DrainSettings = SpecValues['drain'] & SpecValues['loadBalancer'];

export function drainSettingsOf({ drain, loadBalancer }: Pick<SpecValues, 'drain' | 'loadBalancer'>): DrainSettings {
  return { ...drain, ...loadBalancer };
}

export function readDrainSettings(value: unknown): Reading<DrainSettings> {
  const { value: read, problems } = readSpec(drainSpec, value);
  return { value: drainSettingsOf(read), problems };
}

export const DRAIN_DEFAULTS: DrainSettings = readDrainSettings({}).value;

/** The defaults of this release. A new one alone changes no cluster: see `inForceOf`. */
export const DEFAULT_SPEC = defaultsOf(SPEC);

/**
 * The spec that holds for the nodes of a BottlerocketNodeGroup with the spec `given`. Denied versions and blackouts are
 * added to those of the fleet: what keeps the whole fleet from an update keeps each group from it.
 */
export function overridden(fleet: Fields, given: unknown): Fields {
  const spec = inherited(fleet);
  const own = Object.fromEntries(
    Object.entries(isFields(given) ? given : {}).filter(([name]) => Object.hasOwn(OVERRIDES, name)),
  );
  const both = (group: string, list: string): readonly unknown[] => [
    ...new Set([spec, own].flatMap((from) => listIn(from[group], list))),
  ];
  const overriding = merged(spec, own);
  return merged(overriding, {
    ...quorumsOf(overriding),
    maintenance: { blackouts: both('maintenance', 'blackouts') },
    versions: { deny: both('versions', 'deny') },
  });
}

/** Not what a person does at one time, and no selector of other nodes. */
function inherited(fleet: Fields): Fields {
  const { rollout } = fleet;
  const spec = without(fleet, ['paused', 'pauseMode', 'pauseReason']);
  if (!isFields(rollout)) return spec;
  const canary = isFields(rollout['canary']) ? { canary: without(rollout['canary'], ['nodeSelector']) } : {};
  return { ...spec, rollout: { ...without(rollout, ['resume', 'approvedVersion']), ...canary } };
}

function without(from: Fields, names: readonly string[]): Fields {
  return Object.fromEntries(Object.entries(from).filter(([name]) => !names.includes(name)));
}

/** The sets, and their checks, are those of the fleet: a group that has other checks makes no mistake by that. */
function quorumsOf({ quorums: all, health }: Fields): Fields {
  if (!Array.isArray(all)) return {};
  const names = listIn(health, 'checks').map((one) => isFields(one) && one['name']);
  const known = (one: Fields): readonly unknown[] => listIn(one, 'checks').filter((name) => names.includes(name));
  return { quorums: all.map((one: unknown) => (isFields(one) ? { ...one, checks: known(one) } : one)) };
}

type Fields = Readonly<Record<string, unknown>>;

function listIn(group: unknown, name: string): readonly unknown[] {
  const list = isFields(group) ? group[name] : undefined;
  return Array.isArray(list) ? list : [];
}

export function withDefaults(value: unknown): Readonly<Record<string, unknown>> {
  return merged(DEFAULT_SPEC, value);
}
