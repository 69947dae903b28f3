/** The chart's admission policies on a real kube-apiserver, which installs them with Helm. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { jest } from '@jest/globals';
import type { V1Node } from '@kubernetes/client-node';
import {
  APISERVER,
  AUTOSCALER_HOLDS,
  CONTROLLER,
  CORDONED_ANNOTATION,
  EXCLUSION_LABEL,
  GROUP,
  GROUP_KEYS_ANNOTATION,
  GROUP_TAINTS_ANNOTATION,
  NODE_GROUP_KIND,
  NODE_GROUP_PLURAL,
  NODE_GROUP_VERSION,
  NODE_METADATA_FINALIZER,
  OUT_OF_SERVICE_ANNOTATION,
  OUT_OF_SERVICE_TAINT,
  OUT_OF_SERVICE_VALUE,
  PRIORITY_ANNOTATION,
  RETRY_ANNOTATION,
  SHADOW_KIND,
  SHADOW_PLURAL,
  SHADOW_VERSION,
  shadowName,
  STARTUP_TAINT,
  WAITING_TAINT,
} from '@brupop/shared/api/names';
import { OWNERSHIP_ANNOTATIONS } from '@brupop/shared/node/ownership';
import { cordon, exclude, restore, slimNode } from '../../../packages/apiserver/src/nodes/policy.ts';
import { prunePatch, restorePatch } from '../../../packages/controller/src/apply/nodes.ts';
import { readNode } from '../../../packages/controller/src/cluster/node.ts';
import { find, helm, IMAGE, releaseNamespace, renderChart } from '../../framework/chart.ts';
import type { Api, ApiError } from '../../framework/control-plane/api.ts';
import { startLabellingWebhook } from '../../framework/control-plane/webhook.ts';
import { createNode, setNodeUnreachable } from '../../framework/control-plane/nodes.ts';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import { chartDir } from '../../framework/crds.ts';
import { eventually } from '../../framework/eventually.ts';

jest.setTimeout(120_000);

const NODE = 'node-1';
const NODE_PATH = `/api/v1/nodes/${NODE}`;
const SHADOWS = `/apis/${GROUP}/${SHADOW_VERSION}/namespaces/${releaseNamespace}/${SHADOW_PLURAL}`;
const SHADOW = `${SHADOWS}/${shadowName(NODE)}`;
const POLICIES = '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies';
const NOW = Date.UTC(2026, 0, 2, 3, 4, 5);

let cluster: ControlPlane;
/** Requests with the account of a program. RBAC permits these accounts everything here. */
const by: Record<string, Api> = {};

beforeAll(async () => {
  cluster = await startControlPlane();
  // Without pods: no kubelet would end them.
  const nowhere = ['--set', 'apiserver.nodeSelector.runs=nowhere,controller.nodeSelector.runs=nowhere'];
  const domains = ['--set', 'nodeMetadata.domains={node-role.kubernetes.io,node-restriction.kubernetes.io/db}'];
  const release = ['--namespace', releaseNamespace, '--create-namespace', ...nowhere, ...domains];
  await helm(cluster, 'install', 'brupop', chartDir, ...IMAGE, ...release);
  for (const name of [APISERVER, CONTROLLER]) {
    const path = `/api/v1/namespaces/${releaseNamespace}/serviceaccounts/${name}/token`;
    const { status } = await cluster.api.create<{ status: { token: string } }>(path, { spec: {} });
    by[name] = cluster.api.as(status.token);
  }
  await cluster.api.create('/apis/rbac.authorization.k8s.io/v1/clusterrolebindings', {
    metadata: { name: 'everything' },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' },
    subjects: [APISERVER, CONTROLLER].map((name) => ({ kind: 'ServiceAccount', name, namespace: releaseNamespace })),
  });
  await createNode(cluster, { name: 'probe' });
  // A policy takes effect some moments after it was created.
  const probes = [
    async (): Promise<unknown> =>
      by[APISERVER]?.patch('/api/v1/nodes/probe?dryRun=All', { metadata: { labels: { a: 'b' } } }),
    async (): Promise<unknown> => by[APISERVER]?.create(`${SHADOWS}?dryRun=All`, shadowOf('probe')),
  ];
  await eventually(
    async () => {
      for (const probe of probes) if ((await denial(probe())) === '') throw new Error('a policy is not in effect yet');
    },
    { limitMs: 30_000 },
  );
});

afterAll(async () => await cluster.stop());

beforeEach(async () => {
  await createNode(cluster, { name: NODE, labels: { team: 'a' }, annotations: { owner: 'us' } });
});

afterEach(async () => {
  await cluster.api.delete(SHADOW);
  await cluster.api.patch(NODE_PATH, { metadata: { finalizers: null } });
  await cluster.api.delete(NODE_PATH);
});

function apiOf(account: string): Api {
  return by[account] ?? cluster.api;
}

/** The message of a request that a policy denied; empty when it was accepted. */
async function denial(request: Promise<unknown>): Promise<string> {
  const error = await request.then(
    () => undefined,
    (reason: unknown) => reason as ApiError,
  );
  if (error === undefined) return '';
  if (error.status === 403 && error.message.includes('ValidatingAdmissionPolicy')) return error.message;
  throw error;
}

const readRaw = async (): Promise<V1Node> => await cluster.api.get<V1Node>(NODE_PATH);

const ofGroups = { 'node-role.kubernetes.io/db': '' };
const DOMAINS_VALUE = 'value nodeMetadata.domains of the chart';

describe('the policy of Nodes', () => {
  it('accepts everything that the API server does to a Node: cordon, exclusion, and their removal', async () => {
    const change = async (decide: (node: ReturnType<typeof slimNode>) => { patch?: object }): Promise<string> => {
      const { patch } = decide(slimNode(await readRaw()));
      if (patch === undefined) throw new Error('expected a change');
      return await denial(apiOf(APISERVER).patch(NODE_PATH, patch));
    };
    expect(await change((node) => exclude(node, 60_000, NOW))).toBe('');
    expect(await change((node) => cordon(node, NOW))).toBe('');
    const { metadata, spec } = await readRaw();
    expect([spec?.unschedulable, metadata?.labels?.[EXCLUSION_LABEL]]).toEqual([true, 'true']);
    expect(await change(restore)).toBe('');
    const restored = await readRaw();
    expect(restored.spec?.unschedulable).toBeUndefined();
    expect(restored.metadata?.annotations).not.toHaveProperty([CORDONED_ANNOTATION]);
  });

  it('accepts everything that the controller does to a Node: restore, remove annotations, set and remove its taint', async () => {
    const api = apiOf(CONTROLLER);
    const node = async (): Promise<ReturnType<typeof readNode>> => readNode(await readRaw());
    await cluster.api.patch(NODE_PATH, exclude(slimNode(await readRaw()), 60_000, NOW).patch);
    await cluster.api.patch(NODE_PATH, cordon(slimNode(await readRaw()), NOW).patch);
    // Kubernetes taints the Node meanwhile.
    await eventually(async () => expect(await denial(api.patch(NODE_PATH, restorePatch(await node())))).toBe(''));
    expect((await readRaw()).spec?.unschedulable).toBeUndefined();
    await cluster.api.patch(NODE_PATH, { metadata: { annotations: { [CORDONED_ANNOTATION]: 'then' } } });
    await eventually(async () => expect(await denial(api.patch(NODE_PATH, prunePatch(await node())))).toBe(''));
    expect((await readRaw()).metadata?.annotations).not.toHaveProperty([CORDONED_ANNOTATION]);
    const other = { key: 'dedicated', value: 'gpu', effect: 'NoSchedule' };
    const taints = [other, { key: WAITING_TAINT, effect: 'PreferNoSchedule' }];
    await cluster.api.patch(NODE_PATH, { spec: { taints: [other] } });
    expect(await denial(api.patch(NODE_PATH, { spec: { taints } }))).toBe('');
    expect(await denial(api.patch(NODE_PATH, { spec: { taints: [other] } }))).toBe('');
  });

  it('lets the controller set the startup taint on a cordoned Node, and remove it from any', async () => {
    const starting = { key: STARTUP_TAINT, effect: 'NoSchedule' };
    /** Kubernetes itself taints the Node meanwhile. */
    const patchTaints = async (account: string, isWanted: boolean, taint: object = starting): Promise<string> => {
      const others = ((await readRaw()).spec?.taints ?? []).filter(({ key }) => key !== STARTUP_TAINT);
      const taints = isWanted ? [...others, taint] : others;
      return await denial(apiOf(account).patch(NODE_PATH, { spec: { taints } }));
    };
    await cluster.api.patch(NODE_PATH, { spec: { unschedulable: null } });
    await eventually(async () =>
      expect(await patchTaints(CONTROLLER, true)).toContain('only on a Node that is cordoned'),
    );
    await cluster.api.patch(NODE_PATH, { spec: { unschedulable: true } });
    await eventually(async () => expect(await patchTaints(APISERVER, true)).toContain('only unschedulable;'));
    const evicting = { ...starting, effect: 'NoExecute' };
    await eventually(async () => expect(await patchTaints(CONTROLLER, true, evicting)).toContain(STARTUP_TAINT));
    await eventually(async () => expect(await patchTaints(CONTROLLER, true)).toBe(''));
    await cluster.api.patch(NODE_PATH, { spec: { unschedulable: null } });
    await eventually(async () => expect(await patchTaints(CONTROLLER, false)).toBe(''));
    expect((await readRaw()).spec?.taints ?? []).not.toContainEqual(expect.objectContaining(starting));
  });

  const outOfService = { key: OUT_OF_SERVICE_TAINT, value: OUT_OF_SERVICE_VALUE, effect: 'NoExecute' };
  /** Sets the taint and its record beside the other taints; undefined removes both. */
  const taintAs = async (account: string, taint?: object): Promise<string> => {
    const { spec } = await readRaw();
    const others = (spec?.taints ?? []).filter(({ key }) => key !== OUT_OF_SERVICE_TAINT);
    const annotations = { [OUT_OF_SERVICE_ANNOTATION]: taint === undefined ? null : '2026-01-02T03:04:05Z' };
    const taints = taint === undefined ? others : [...others, taint];
    return await denial(apiOf(account).patch(NODE_PATH, { metadata: { annotations }, spec: { taints } }));
  };
  /** Kubernetes itself taints the Node meanwhile, so a request may be denied for what it has set. */
  const untilTold = async (account: string, taint: object | undefined, text: string): Promise<void> =>
    await eventually(async () => {
      const message = await taintAs(account, taint);
      if (text === '') expect(message).toBe('');
      else expect(message).toContain(text);
    });

  it('lets the controller taint a cordoned Node as out of service whose kubelet is silent, and remove the taint', async () => {
    await untilTold(CONTROLLER, outOfService, 'only on a Node that is cordoned');
    await cluster.api.patch(NODE_PATH, { spec: { unschedulable: true } });
    await untilTold(CONTROLLER, outOfService, 'whose condition Ready is Unknown');
    await setNodeUnreachable(cluster, NODE);
    await untilTold(APISERVER, outOfService, 'only unschedulable;');
    await untilTold(CONTROLLER, { ...outOfService, value: 'nodeshutdown' }, 'with the value brupop');
    await untilTold(CONTROLLER, { ...outOfService, effect: 'NoSchedule' }, 'the effect NoExecute');
    expect((await readRaw()).metadata?.annotations).not.toHaveProperty([OUT_OF_SERVICE_ANNOTATION]);

    await untilTold(CONTROLLER, outOfService, '');
    expect((await readRaw()).spec?.taints).toContainEqual(expect.objectContaining(outOfService));
    await untilTold(CONTROLLER, undefined, '');
    expect((await readRaw()).metadata?.annotations).not.toHaveProperty([OUT_OF_SERVICE_ANNOTATION]);
  });

  it('lets the controller set and remove labels, annotations and taints of the domains of node groups', async () => {
    const api = apiOf(CONTROLLER);
    const db = { key: 'node-restriction.kubernetes.io/db', effect: 'NoSchedule' };
    const records = { [GROUP_KEYS_ANNOTATION]: '{}', [GROUP_TAINTS_ANNOTATION]: '[]' };
    const change = async (isWanted: boolean): Promise<string> => {
      const others = ((await readRaw()).spec?.taints ?? []).filter(({ key }) => key !== db.key);
      const values = (keys: object): object =>
        Object.fromEntries(Object.keys(keys).map((key) => [key, isWanted ? '' : null]));
      const metadata = { labels: values(ofGroups), annotations: values({ ...ofGroups, ...records }) };
      return await denial(api.patch(NODE_PATH, { metadata, spec: { taints: isWanted ? [...others, db] : others } }));
    };
    // Kubernetes itself taints the Node meanwhile.
    await eventually(async () => expect(await change(true)).toBe(''));
    expect((await readRaw()).metadata?.labels).toMatchObject(ofGroups);
    await eventually(async () => expect(await change(false)).toBe(''));
    expect((await readRaw()).metadata?.labels).not.toMatchObject(ofGroups);
  });

  it('keeps the managed fields of node groups from the API server', async () => {
    const query = '?fieldManager=brupop-group-db&force=true';
    const body = { apiVersion: 'v1', kind: 'Node', metadata: { name: NODE, labels: ofGroups } };
    await cluster.api.request('PATCH', `${NODE_PATH}${query}`, body, 'application/apply-patch+yaml');
    const emptied = { metadata: { managedFields: [{}] } };
    expect(await denial(apiOf(APISERVER).patch(NODE_PATH, emptied))).toContain('the managed fields of node groups');
    expect(await denial(apiOf(APISERVER).patch(NODE_PATH, { spec: { unschedulable: true } }))).toBe('');
    expect(await denial(apiOf(CONTROLLER).patch(NODE_PATH, emptied))).toBe('');
  });

  const both = [APISERVER, CONTROLLER];
  const taint = (key: string, effect: string): object => ({ spec: { taints: [{ key, effect }] } });
  const forbidden: readonly (readonly [string, readonly string[], object, string])[] = [
    ['a label of another owner', both, { metadata: { labels: { team: 'b' } } }, 'this request changes team'],
    ['the removal of such a label', both, { metadata: { labels: { team: null } } }, 'this request changes team'],
    ['an annotation of another owner', both, { metadata: { annotations: { owner: 'me' } } }, 'changes owner'],
    ['the priority, which users set', both, { metadata: { annotations: { [PRIORITY_ANNOTATION]: '9' } } }, 'priority'],
    ['a pod CIDR', both, { spec: { podCIDR: '10.9.0.0/24', podCIDRs: ['10.9.0.0/24'] } }, 'podCIDR'],
    ['another taint', both, taint('dedicated', 'NoSchedule'), 'taints'],
    ['the taint of waiting Nodes', [APISERVER], taint(WAITING_TAINT, 'PreferNoSchedule'), 'only unschedulable;'],
    ['the taint of waiting Nodes with another effect', [CONTROLLER], taint(WAITING_TAINT, 'NoExecute'), WAITING_TAINT],
    ['a finalizer', both, { metadata: { finalizers: ['example.com/stays'] } }, 'finalizers and owners'],
    [
      'an owner',
      both,
      { metadata: { ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name: 'x', uid: 'x' }] } },
      'finalizers and owners',
    ],
    ['a label of node groups', [APISERVER], { metadata: { labels: ofGroups } }, 'changes node-role.kubernetes.io/db'],
    [
      'an annotation of node groups',
      [APISERVER],
      { metadata: { annotations: ofGroups } },
      'node-role.kubernetes.io/db',
    ],
    ['a taint of node groups', [APISERVER], taint('node-role.kubernetes.io/db', 'NoSchedule'), 'only unschedulable;'],
    ['a record of node groups', [APISERVER], { metadata: { annotations: { [GROUP_KEYS_ANNOTATION]: '{}' } } }, 'keys'],
    ['a label of a domain', [CONTROLLER], { metadata: { labels: { 'example.com/a': '' } } }, DOMAINS_VALUE],
    ['an annotation of a domain', [CONTROLLER], { metadata: { annotations: { 'example.com/a': '' } } }, DOMAINS_VALUE],
    [
      'a label of an open domain that is not listed',
      [CONTROLLER],
      { metadata: { labels: { 'node-restriction.kubernetes.io/brupop': 'apart' } } },
      DOMAINS_VALUE,
    ],
    ['a taint of a domain', [CONTROLLER], taint('example.com/a', 'NoSchedule'), DOMAINS_VALUE],
    [
      'a label of a similar domain',
      [CONTROLLER],
      { metadata: { labels: { 'node-role.kubernetes.io.x/a': '' } } },
      'x/a',
    ],
    ['a cordon', [CONTROLLER], { spec: { unschedulable: true } }, 'only brupop-apiserver cordons'],
    ['an exclusion', [CONTROLLER], { metadata: { labels: { [EXCLUSION_LABEL]: 'true' } } }, 'not set them'],
    ['an annotation', [CONTROLLER], { metadata: { annotations: { [CORDONED_ANNOTATION]: 'now' } } }, 'not set them'],
    [
      'a label of another owner beside a cordon',
      [APISERVER],
      { metadata: { labels: { team: 'b' } }, spec: { unschedulable: true } },
      'this request changes team',
    ],
  ];

  it.each(
    forbidden.flatMap(([what, accounts, patch, text]) => accounts.map((one) => [what, one, patch, text] as const)),
  )('denies %s to %s, and says what the account may change', async (_what, account, patch, text) => {
    const message = await denial(apiOf(account).patch(NODE_PATH, patch));
    expect(message).toContain("'brupop-nodes'");
    expect(message).toContain(account);
    expect(message).toContain(text);
    const { metadata } = await readRaw();
    expect([metadata?.labels?.['team'], metadata?.annotations?.['owner']]).toEqual(['a', 'us']);
  });

  it('denies a cordon if a mutating webhook edits the Node with it, until that leaves the account out', async () => {
    const path = '/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations';
    const webhook = await startLabellingWebhook('audited');
    const notOurs = `!request.userInfo.username.startsWith('system:serviceaccount:${releaseNamespace}:')`;
    const edits = {
      name: 'edits.example.com',
      clientConfig: webhook.clientConfig,
      rules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['UPDATE'], resources: ['nodes'] }],
      failurePolicy: 'Ignore',
      admissionReviewVersions: ['v1'],
      sideEffects: 'None',
    };
    const cordonIt = async (): Promise<string> =>
      await denial(apiOf(APISERVER).patch(`${NODE_PATH}?dryRun=All`, cordon(slimNode(await readRaw()), NOW).patch));
    try {
      await cluster.api.create(path, { metadata: { name: 'edits-nodes' }, webhooks: [edits] });
      await eventually(async () => expect(await cordonIt()).toContain('this request changes audited'));
      const webhooks = [{ ...edits, matchConditions: [{ name: 'not-the-operator', expression: notOurs }] }];
      await cluster.api.patch(`${path}/edits-nodes`, { webhooks });
      await eventually(async () => expect(await cordonIt()).toBe(''));
    } finally {
      await cluster.api.delete(`${path}/edits-nodes`);
      await webhook.close();
    }
  });

  it('leaves users, kubelets and the controllers of Kubernetes alone', async () => {
    const patch = JSON.stringify({ metadata: { labels: { team: 'b' }, annotations: { owner: 'me' } } });
    const kubelet = [`--as=system:node:${NODE}`, '--as-group=system:nodes', '--as-group=system:authenticated'];
    for (const who of [[], kubelet]) {
      const args = ['patch', 'node', NODE, '--type=merge', '--patch', patch, ...who];
      await promisify(execFile)(cluster.assets.kubectl, args, { env: cluster.env, timeout: 30_000 });
    }
    expect((await readRaw()).metadata?.labels?.['team']).toBe('b');
    await cluster.api.patch(NODE_PATH, { spec: { unschedulable: true } });
    await eventually(async () => {
      const keys = (await readRaw()).spec?.taints?.map(({ key }) => key);
      expect(keys).toContain('node.kubernetes.io/unschedulable');
    });
  });
});

function shadowOf(node: string, uid?: string): object {
  const ownerReferences = uid === undefined ? [] : [{ apiVersion: 'v1', kind: 'Node', name: node, uid }];
  return {
    apiVersion: `${GROUP}/${SHADOW_VERSION}`,
    kind: SHADOW_KIND,
    metadata: { name: shadowName(node), ownerReferences },
    spec: { state: 'Idle' },
  };
}

const REBOOT = { spec: { state: 'RebootedIntoUpdate', version: '1.27.0' } };
const STATUS = {
  status: { current_state: 'Idle', current_version: '1.26.0', target_version: '1.26.0', crash_count: 0 },
};

describe('the policy of shadows', () => {
  const create = async (): Promise<void> => {
    await apiOf(CONTROLLER).create(SHADOWS, shadowOf(NODE, (await readRaw()).metadata?.uid));
  };

  it('lets the controller write all of a shadow', async () => {
    await create();
    expect(await denial(apiOf(CONTROLLER).patch(SHADOW, REBOOT))).toBe('');
    expect(await denial(apiOf(CONTROLLER).patch(`${SHADOW}/status`, STATUS))).toBe('');
    expect(await cluster.api.get(SHADOW)).toMatchObject({ ...REBOOT, ...STATUS });
    await apiOf(CONTROLLER).delete(SHADOW);
  });

  it('lets the API server write the status, and not the spec', async () => {
    await create();
    expect(await denial(apiOf(APISERVER).patch(`${SHADOW}/status`, STATUS))).toBe('');
    expect(await denial(apiOf(APISERVER).patch(SHADOW, REBOOT))).toContain('only the account brupop-controller');
    expect(await cluster.api.get(SHADOW)).toMatchObject({ spec: { state: 'Idle' }, ...STATUS });
  });

  it('lets users annotate and delete a shadow, and not create one, start an update or write a status', async () => {
    const { api } = cluster;
    expect(await denial(api.create(SHADOWS, shadowOf(NODE)))).toContain('only the account brupop-controller creates');
    await create();
    expect(await denial(api.patch(SHADOW, REBOOT))).toContain('configure updates in the BrupopConfig');
    expect(await denial(api.patch(`${SHADOW}/status`, STATUS))).toContain('write the status of shadows');
    expect(await denial(api.patch(SHADOW, { metadata: { annotations: { [RETRY_ANNOTATION]: '1.27.0' } } }))).toBe('');
    const record = (value: string | null): object => ({ metadata: { annotations: { [`${GROUP}/record`]: value } } });
    expect(await denial(apiOf(CONTROLLER).patch(SHADOW, record('{}')))).toBe('');
    expect(await denial(api.patch(SHADOW, record('{"settingsProved":[]}')))).toContain('you may remove it');
    expect(await denial(api.patch(SHADOW, record(null)))).toBe('');
    expect(await denial(api.patch(SHADOW, { metadata: { finalizers: ['example.com/stays'] } }))).toBe('');
    expect(await denial(api.patch(SHADOW, { metadata: { finalizers: null } }))).toBe('');
    await api.delete(SHADOW);
  });

  it('lets the garbage collector delete the shadow of a Node that is gone', async () => {
    await create();
    await cluster.api.delete(NODE_PATH);
    await eventually(async () => await expect(cluster.api.get(SHADOW)).rejects.toThrow('404'), { limitMs: 30_000 });
    await createNode(cluster, { name: NODE });
  });

  it('leaves shadows in other namespaces alone', async () => {
    const elsewhere = SHADOWS.replace(releaseNamespace, 'default');
    await cluster.api.create(elsewhere, shadowOf(NODE));
    expect(await denial(cluster.api.patch(`${elsewhere}/${shadowName(NODE)}`, REBOOT))).toBe('');
    await cluster.api.delete(`${elsewhere}/${shadowName(NODE)}`);
  });
});

describe('the policy of node groups', () => {
  const path = `/apis/${GROUP}/${NODE_GROUP_VERSION}/${NODE_GROUP_PLURAL}`;

  it('lets the controller set and remove its finalizer, and change nothing else', async () => {
    const kind = { apiVersion: `${GROUP}/${NODE_GROUP_VERSION}`, kind: NODE_GROUP_KIND };
    await cluster.api.create(path, { ...kind, metadata: { name: 'db' }, spec: { nodeSelector: {} } });
    const patch = async (body: object): Promise<string> => await denial(apiOf(CONTROLLER).patch(`${path}/db`, body));
    for (const body of [
      { spec: { precedence: 5 } },
      { metadata: { labels: { a: 'b' } } },
      { metadata: { finalizers: ['example.com/stays'] } },
      { metadata: { ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name: 'gone', uid: 'gone' }] } },
    ]) {
      await eventually(async () => expect(await patch(body)).toContain('only its status and the finalizer'));
    }
    expect(await patch({ metadata: { finalizers: [NODE_METADATA_FINALIZER] } })).toBe('');
    expect(await patch({ metadata: { finalizers: [] } })).toBe('');
    await cluster.api.delete(`${path}/db`);
  });
});

describe('the settings of node groups', () => {
  const groups = `/apis/${GROUP}/${NODE_GROUP_VERSION}/${NODE_GROUP_PLURAL}`;
  const answerTo = async (settings: object): Promise<string> => {
    const body = {
      apiVersion: `${GROUP}/${NODE_GROUP_VERSION}`,
      kind: NODE_GROUP_KIND,
      metadata: { name: 'web' },
      spec: { nodeSelector: {}, settings },
    };
    return await denial(cluster.api.create(groups, body));
  };

  it('are only those that the chart allows: with most others who edits groups could be root on hosts', async () => {
    await eventually(async () => {
      expect(await answerTo({ motd: 'hello', 'host-containers': { evil: { source: 'x' } } })).toContain(
        'value hostSettings.allowed of the chart allows (motd, ntp), found host-containers',
      );
    });
    expect(await answerTo({ motd: 'hello', ntp: { options: [] } })).toBe('');
    const add = { spec: { settings: { kernel: { sysctl: { 'kernel.core_pattern': '|/bin/x' } } } } };
    expect(await denial(cluster.api.patch(`${groups}/web`, add))).toContain('found kernel');
    expect(await denial(cluster.api.patch(`${groups}/web`, { spec: { settings: null } }))).toBe('');
    await cluster.api.delete(`${groups}/web`);
  });
});

describe('the admission policies', () => {
  it('have no expression that the API server warns of', async () => {
    for (const name of ['brupop-nodes', 'brupop-shadows', 'brupop-node-groups', 'brupop-host-settings']) {
      await eventually(
        async () => {
          const { status } = await cluster.api.get<{ status?: { typeChecking?: object } }>(`${POLICIES}/${name}`);
          expect(status?.typeChecking).toEqual({});
        },
        { limitMs: 30_000 },
      );
    }
  });

  it('name what the programs write', async () => {
    const { spec } = find(await renderChart(cluster), 'ValidatingAdmissionPolicy', 'brupop-nodes');
    const variables = spec?.['variables'] as readonly { name: string; expression: string }[];
    const named = (name: string): string[] => {
      const { expression = '' } = variables.find((variable) => variable.name === name) ?? {};
      return [...expression.matchAll(/'([^']+)'/gu)].map(([, key = '']) => key);
    };
    expect(named('ownAnnotations')).toEqual([...OWNERSHIP_ANNOTATIONS, ...AUTOSCALER_HOLDS]);
    expect(named('controllerAnnotations')).toEqual([OUT_OF_SERVICE_ANNOTATION]);
    expect(named('groupAnnotations')).toEqual([GROUP_KEYS_ANNOTATION, GROUP_TAINTS_ANNOTATION]);
    expect(named('domains')).toEqual([]);
    expect(named('ownLabels')).toEqual([EXCLUSION_LABEL]);
    expect(named('outOfService')).toEqual([OUT_OF_SERVICE_TAINT, OUT_OF_SERVICE_VALUE, 'NoExecute']);
    expect(named('oldOutOfService')).toEqual(named('outOfService'));
    expect(JSON.stringify(spec)).toContain(`'${WAITING_TAINT}'`);
  });

  it('are left out if a value says so', async () => {
    const kinds = (await renderChart(cluster, '--set', 'admissionPolicies.enabled=false')).map(({ kind }) => kind);
    expect(kinds.filter((kind) => kind.startsWith('ValidatingAdmissionPolicy'))).toEqual([]);
  });

  it('do not keep the namespace of the release from being deleted', async () => {
    await apiOf(CONTROLLER).create(SHADOWS, shadowOf(NODE));
    await cluster.api.delete(`/api/v1/namespaces/${releaseNamespace}`);
    await eventually(
      async () => await expect(cluster.api.get(`/api/v1/namespaces/${releaseNamespace}`)).rejects.toThrow('404'),
      { limitMs: 60_000 },
    );
  });
});
