import { Metadata } from '../../../../test/framework/host/metadata.ts';
import { parseAffectedServices, parseServices } from '../host/host.ts';
import type { SettingClass } from '@brupop/shared/api/settings';
import { allowsFewerPods, classOf, differenceOf, type Service } from './classes.ts';

/** The services of a real host that a setting affects, as they come through the host API. */
function servicesOf(key: string): Service[] | undefined {
  const metadata = new Metadata('aws-k8s-1.31-nvidia');
  const names = parseAffectedServices(JSON.stringify({ [key]: metadata.affectedServices(key) })).get(key);
  const services = parseServices(JSON.stringify(Object.fromEntries(metadata.services)));
  return names && services.filter(({ name }) => names.includes(name));
}

function serviceWith(...restartCommands: string[]): Service[] {
  return [{ name: 'some', restartCommands }];
}

it.each<readonly [SettingClass, RegExp, readonly string[]]>([
  [
    'Live',
    /no service that pods need/,
    [
      'settings.motd',
      'settings.updates.version-lock',
      'settings.kernel.sysctl."vm.max_map_count"',
      'settings.ntp.time-servers',
      'settings.dns.name-servers',
      'settings.network.hosts',
      'settings.host-containers.admin.enabled',
      'settings.kubernetes.static-pods.web.enabled',
      'settings.aws.region',
      'settings.oci-hooks.log4j-hotpatch-enabled',
    ],
  ],
  [
    'RestartsService',
    /it restarts kubelet$/,
    [
      'settings.kubernetes.max-pods',
      'settings.kubernetes.eviction-soft."memory.available"',
      'settings.kubernetes.cluster-dns-ip',
      'settings.aws.profile',
    ],
  ],
  [
    'RestartsService',
    /it restarts containerd, kubelet$/,
    ['settings.network.https-proxy', 'settings.network.no-proxy'],
  ],
  [
    'RestartsService',
    /it restarts containerd$/,
    [
      'settings.container-registry.mirrors',
      'settings.container-runtime.max-concurrent-downloads',
      'settings.pki.my-ca.data',
      'settings.oci-defaults.capabilities.sys-admin',
    ],
  ],
  ['RestartsService', /nvidia-k8s-device-plugin$/, ['settings.kubelet-device-plugins.nvidia.pass-device-specs']],
  [
    'NeedsReboot',
    /at boot/,
    [
      'settings.boot.kernel."ipv6.disable"',
      'settings.boot.kernel-parameters.x',
      'settings.boot.reboot-to-reconcile',
      'settings.bootstrap-commands.x.commands',
      'settings.bootstrap-containers.x.mode',
      'settings.container-runtime.snapshotter',
    ],
  ],
  ['NeedsReboot', /only a boot undoes it/, ['settings.kernel.lockdown', 'settings.kernel.modules.sctp.allowed']],
  ['Refused', /^it holds a secret/, ['settings.aws']],
  ['NeedsReboot', /partitions the GPUs/, ['settings.kubelet-device-plugins.nvidia.mig.profile."a100.40gb"']],
  [
    'NeedsReboot',
    /removes the state of the CPU manager/,
    ['settings.kubernetes.cpu-manager-policy', 'settings.kubernetes.cpu-manager-policy-options'],
  ],
  [
    'NeedsReboot',
    /ends running pods/,
    [
      'settings.kubernetes.allowed-unsafe-sysctls',
      'settings.kubernetes.eviction-hard."memory.available"',
      'settings.kubernetes.kube-reserved.memory',
      'settings.kubernetes.reserved-cpus',
      'settings.kubernetes.system-reserved.cpu',
      'settings.kubernetes.topology-manager-policy',
      'settings.kubernetes.topology-manager-scope',
    ],
  ],
  ['NeedsReboot', /user namespaces of another size/, ['settings.kubernetes.ids-per-pod']],
  [
    'Refused',
    /empty node/,
    ['settings.kubernetes.memory-manager-policy', 'settings.kubernetes.memory-manager-reserved-memory."0".memory'],
  ],
  ['NeedsReboot', /does not tell/, ['settings.metrics.send-metrics', 'settings.new-in-a-later-release.x']],
  ['NeedsReboot', /not known what "systemctl try-restart cfsignal.service"/, ['settings.cloudformation.should-signal']],
  [
    'Refused',
    /use nodeMetadata of the group/,
    ['settings.kubernetes.node-labels."example.com/pool"', 'settings.kubernetes.node-taints.dedicated'],
  ],
  [
    'Refused',
    /it holds a secret/,
    [
      'settings.aws.credentials',
      'settings.host-containers.admin.user-data',
      'settings.container-registry.credentials',
      'settings.bootstrap-containers."my.container".user-data',
      'settings."kubernetes".server-key',
    ],
  ],
  [
    'Refused',
    /identifies the node or its cluster/,
    [
      'settings.kubernetes.api-server',
      'settings.kubernetes.hostname-override',
      'settings.kubernetes.provider-id',
      'settings.kubernetes.standalone-mode',
      'settings.network.hostname',
    ],
  ],
])('%s, %s', (expected, reason, keys) => {
  const found = keys.map((key) => [key, classOf(key, servicesOf(key))] as const);
  const wanted = { class: expected, reason: expect.stringMatching(reason) as string };
  expect(found).toEqual(keys.map((key) => [key, wanted]));
});

it.each<readonly [SettingClass, string, string | undefined]>([
  ['NeedsReboot', '90', '110'],
  ['NeedsReboot', '90', undefined],
  ['RestartsService', '90', '90'],
  ['RestartsService', '250', '110'],
  ['RestartsService', '120', undefined],
])('%s, max-pods %s after %s', (expected, value, before) => {
  const key = 'settings.kubernetes.max-pods';
  const changes = new Map([
    [key, value],
    ['settings.kubernetes.log-level', '2'],
  ]);
  const classes = [...changes.keys()].map((one) => classOf(one, servicesOf(one), allowsFewerPods(changes, before)));
  expect(classes.map((one) => one.class)).toEqual([expected, 'RestartsService']);
});

it('refuses a key also when the host knows nothing of it', () => {
  expect(classOf('settings.network.hostname', undefined).class).toBe('Refused');
});

it.each<readonly [SettingClass, string, Service[]]>([
  ['Live', 'no service is affected', []],
  ['Live', 'every command is harmless', serviceWith('/usr/bin/corndog sysctl', 'netdog write-resolv-conf')],
  ['NeedsReboot', 'one command is unknown', serviceWith('/usr/bin/corndog sysctl', '/usr/bin/unheard-of')],
  ['NeedsReboot', 'a command only begins like a harmless one', serviceWith('/usr/bin/corndog sysctl --all')],
  ['NeedsReboot', 'it restarts what only sounds like a known service', serviceWith('systemctl restart kubelet-x')],
  ['RestartsService', 'a command needs no path', serviceWith('systemctl restart docker')],
  [
    'RestartsService',
    'another service restarts too',
    [...serviceWith('x'), ...serviceWith('systemctl restart kubelet')],
  ],
])('is %s when %s', (expected, _name, services) => {
  expect(classOf('settings.some', services).class).toBe(expected);
});

it('takes a pattern for whole segments', () => {
  expect(classOf('settings.bootstrapped', []).class).toBe('Live');
  expect(classOf('settings.host-containers.user-data.enabled', []).class).toBe('Live');
  expect(classOf('settings.kubernetes."node-labels.x"', []).class).toBe('Live');
});

it('shortens a command that it does not know', () => {
  expect(classOf('settings.some', serviceWith('x'.repeat(5000))).reason.length).toBeLessThan(150);
});

describe('what the host stores', () => {
  const MIRRORS = 'settings.container-registry.mirrors';
  const LOCK = 'settings.updates.version-lock';
  it.each<readonly [string, Record<string, string>, Record<string, string>, string | undefined]>([
    ['the same', { [MIRRORS]: '[]', 'settings.motd': '"a"' }, { 'settings.motd': '"a"', [MIRRORS]: '[]' }, undefined],
    ['a version without its v', { [LOCK]: '"v1.27.0"' }, { [LOCK]: '"1.27.0"' }, undefined],
    [
      'a list under another key',
      { 'settings.motd': '"a"', [`${MIRRORS}."docker.io"`]: '["https://a"]' },
      { 'settings.motd': '"a"', [MIRRORS]: '[{"endpoint":["https://a"],"registry":"docker.io"}]' },
      `the host stores ${MIRRORS}."docker.io" as ${MIRRORS}: write it so`,
    ],
    [
      'another value',
      { 'settings.ntp.options': '[1]' },
      { 'settings.ntp.options': '["1"]' },
      'the host stores settings.ntp.options as ["1"]: write it so',
    ],
  ])('may be %s', (_what, changes, stored, expected) => {
    expect(differenceOf(new Map(Object.entries(changes)), new Map(Object.entries(stored)), new Map())).toBe(expected);
  });

  it.each<readonly [string, Record<string, string>, string | undefined]>([
    ['is new', {}, undefined],
    ['is there already', { 'settings.kernel.hugepages.static."2Mi".essential': 'false' }, undefined],
    [
      'would replace another',
      { 'settings.kernel.hugepages.static."2Mi".essential': 'true' },
      'the host would also change settings.kernel.hugepages.static."2Mi".essential to false',
    ],
  ])('may be completed with a default that %s', (_what, live, expected) => {
    const changes = [['settings.kernel.hugepages.static."2Mi".count', '512']] as const;
    const stored = [...changes, ['settings.kernel.hugepages.static."2Mi".essential', 'false']] as const;
    expect(differenceOf(new Map(changes), new Map(stored), new Map(Object.entries(live)))).toBe(expected);
  });
});
