/**
 * What a change of a host setting disrupts. The host API does not say it. It names the services that
 * a setting affects, and the commands that restart them; for some settings a command runs although
 * the change takes effect only at a boot. So these decide, in this order: the keys that are refused,
 * the keys that need a reboot, the commands. A change that is not known needs a reboot.
 *
 * Sources: `sources/shared-defaults` of bottlerocket-os/bottlerocket for services and commands, the
 * reference of settings on bottlerocket.dev for what a boot applies, and `kubernetes-tmpfiles.conf` of the
 * Kubernetes packages (bottlerocket-os/bottlerocket, later bottlerocket-core-kit) for what a boot removes.
 */
import { type Classified, isSecret, type Leaves, overlaps, sameValue } from '@brupop/shared/api/settings';

export interface Service {
  readonly name: string;
  readonly restartCommands: readonly string[];
}

/** A reason, and the keys below `settings` for which it holds; `*` is one segment. */
type Rule = readonly [reason: string, ...keys: string[]];

const USE_METADATA = 'a registered Node does not change with it: use nodeMetadata of the group';
const REFUSED: readonly Rule[] = [
  // The kubelet sets them when it registers the Node, never again (kubernetes/kubernetes#59314).
  [USE_METADATA, 'kubernetes.node-labels', 'kubernetes.node-taints'],
  [
    'it identifies the node or its cluster, and another value would take the node out of the cluster',
    'kubernetes.api-server',
    'kubernetes.authentication-mode',
    'kubernetes.cloud-provider',
    'kubernetes.cluster-certificate',
    'kubernetes.cluster-name',
    'kubernetes.hostname-override',
    'kubernetes.hostname-override-source',
    'kubernetes.node-ip',
    'kubernetes.provider-id',
    'kubernetes.server-certificate',
    'kubernetes.server-tls-bootstrap',
    'kubernetes.standalone-mode',
    'network.hostname',
  ],
  // The kubelet does not start with /var/lib/kubelet/memory_manager_state of another policy, and no boot removes it.
  [
    'the kubelet needs an empty node and its state removed for it: set it in the user data of new nodes',
    'kubernetes.memory-manager-policy',
    'kubernetes.memory-manager-reserved-memory',
  ],
];

const ENDS_PODS = 'a kubelet that restarts ends running pods which it would not take now';
const NEEDS_REBOOT: readonly Rule[] = [
  ['it takes effect at boot', 'boot', 'bootstrap-commands', 'bootstrap-containers', 'container-runtime.snapshotter'],
  ['only a boot undoes it', 'kernel.lockdown', 'kernel.modules'],
  // `r! /var/lib/kubelet/cpu_manager_state` in kubernetes-tmpfiles.conf: with that of another policy the kubelet does not start.
  [
    'only a boot removes the state of the CPU manager, with which the kubelet does not start',
    'kubernetes.cpu-manager-policy',
    'kubernetes.cpu-manager-policy-options',
  ],
  // MakeUserNsManager of the kubelet fails: 'wrong user namespace length'.
  ['the kubelet does not start with it while pods have user namespaces of another size', 'kubernetes.ids-per-pod'],
  // When it starts, it admits all pods again, and kills the others within a second (HandlePodAdditions, HandlePodCleanups).
  [
    ENDS_PODS,
    'kubernetes.allowed-unsafe-sysctls',
    'kubernetes.eviction-hard',
    'kubernetes.kube-reserved',
    'kubernetes.reserved-cpus',
    'kubernetes.system-reserved',
    'kubernetes.topology-manager-policy',
    'kubernetes.topology-manager-scope',
  ],
  [
    'a boot partitions the GPUs',
    'kubelet-device-plugins.nvidia.device-partitioning-strategy',
    'kubelet-device-plugins.nvidia.mig',
  ],
];

/** The setting with fewer of which the same happens, and what a kubelet takes without it. */
export const MAX_PODS = 'settings.kubernetes.max-pods';
const DEFAULT_MAX_PODS = '110';

/** @param maxPods - what the host has for `MAX_PODS` */
export function allowsFewerPods(changes: Leaves, maxPods = DEFAULT_MAX_PODS): boolean {
  return Number(changes.get(MAX_PODS)) < Number(maxPods);
}

/** Services that pods need to start, and survive. */
const UNITS = 'containerd|docker|kubelet|nvidia-k8s-device-plugin';
const RESTARTS = new RegExp(`^systemctl (?:try-)?(?:reload-or-)?restart (?<unit>${UNITS})(?:\\.service)?$`, 'u');

/** Commands that disrupt nothing but what they configure. */
const HARMLESS: ReadonlySet<string> = new Set([
  'certdog',
  'corndog sysctl',
  'host-containers',
  'netdog write-resolv-conf',
  'static-pods',
  'systemctl try-reload-or-restart chronyd.service',
]);

/**
 * @param services - undefined when the host has no metadata for the key
 * @param isForFewerPods - by {@link allowsFewerPods}
 */
export function classOf(key: string, services: readonly Service[] | undefined, isForFewerPods = false): Classified {
  if (isSecret(key)) return { class: 'Refused', reason: 'it holds a secret, which the shadow would show' };
  const refused = reasonFor(key, REFUSED);
  if (refused !== undefined) return { class: 'Refused', reason: refused };
  const atBoot = reasonFor(key, NEEDS_REBOOT);
  if (atBoot !== undefined) return { class: 'NeedsReboot', reason: atBoot };
  if (isForFewerPods && key === MAX_PODS) return { class: 'NeedsReboot', reason: ENDS_PODS };
  if (services === undefined) return { class: 'NeedsReboot', reason: 'the host does not tell what it affects' };
  return classOfCommands(services.flatMap(({ restartCommands }) => restartCommands));
}

function classOfCommands(written: readonly string[]): Classified {
  const commands = written.map((command) => command.replace(/^(?:\/usr)?\/s?bin\//u, ''));
  const units = commands.flatMap((command) => RESTARTS.exec(command)?.groups?.['unit'] ?? []);
  if (units.length > 0) return { class: 'RestartsService', reason: `it restarts ${units.join(', ')}` };
  const unknown = commands.find((command) => !HARMLESS.has(command));
  if (unknown === undefined) return { class: 'Live', reason: 'it restarts no service that pods need' };
  return { class: 'NeedsReboot', reason: `it is not known what "${unknown.slice(0, 100)}" disrupts` };
}

function reasonFor(key: string, rules: readonly Rule[]): string | undefined {
  return rules.find(([, ...keys]) => keys.some((pattern) => overlaps(key, pattern)))?.[0];
}

/**
 * Returns why changes are not set that the host stores otherwise than they are written, such as a map of mirrors as a
 * list: under another key, or as another value, they can neither be compared with the host's nor restored. The host may
 * complete them with the defaults of other settings, if that changes none of these.
 *
 * @param stored - what the host would store
 * @param live - what it has now, of the keys in `stored` that are not changed
 */
export function differenceOf(changes: Leaves, stored: Leaves, live: Leaves): string | undefined {
  const others = [...stored].filter(([key]) => !changes.has(key));
  const written = [...changes.keys()].find((key) => !sameValue(key, changes.get(key), stored.get(key)));
  if (written !== undefined) {
    const found = stored.get(written) ?? others.map(([key]) => key).join(', ');
    return `the host stores ${written} as ${found}: write it so`;
  }
  const [changed] = others.find(([key, value]) => live.has(key) && live.get(key) !== value) ?? [];
  return changed && `the host would also change ${changed} to ${stored.get(changed)}`;
}
