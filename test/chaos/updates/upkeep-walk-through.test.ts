/** The commands of recovery.md and dependents.md on a whole fleet, what GitOps tools make of its objects, and every look. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { jest } from '@jest/globals';
import type { V1PodList } from '@kubernetes/client-node';
import { parse } from 'yaml';
import type { KubernetesObject } from '../../../packages/shared/src/api/meta.ts';
import type { BrupopConfig } from '../../../packages/shared/src/api/brupop-config.ts';
import type { BrupopConfigSpec } from '../../../packages/shared/src/api/config-spec.ts';
import { blocksOf, commandsOf, runCommands, splitCommands, withFile } from '../../framework/commands.ts';
import { eventually } from '../../framework/eventually.ts';
import { fleetNodes } from '../../framework/fleet/fleet.ts';
import { applyGroup, setPool } from '../../framework/fleet/pools.ts';
import { createMembers, staticQuorum } from '../../framework/fleet/static-members.ts';
import { type FleetContext, NEW, withFleet } from '../../framework/fleet/with-fleet.ts';
import { type Health, obtainHealth } from '../../framework/gitops/health.ts';
import { fencesOf, spansOf } from '../../framework/markdown.ts';
import { userPages, yamlExamplesOf } from '../../framework/yaml-examples.ts';

jest.setTimeout(900_000);

const NODES = fleetNodes(3);
const NAMES = NODES.map(({ name }) => name);
const API = '/apis/brupop.bottlerocket.aws/v1alpha1';
const CONFIG = `${API}/brupopconfigs/cluster`;
const OBJECTS = [
  `${API}/brupopconfigs`,
  `${API}/bottlerocketnodegroups`,
  '/apis/brupop.bottlerocket.aws/v2/bottlerocketshadows',
];
const [ALLOW_TARGET = '', ...SHOWS] = splitCommands(commandsOf('docs/dependents.md', 'Set it up'));
const [IGNORE = ''] = splitCommands(commandsOf('docs/dependents.md', 'What is written to a target'));
const STUCK = commandsOf('docs/dependents.md', 'If it is stuck at 0');
const ALLOW_RECOVERY = commandsOf('docs/recovery.md', 'Example');
const [SHOP = ''] = blocksOf('docs/recovery.md', 'Example', 'yaml');
const AUTOSCALER =
  'kubectl create deployment cluster-autoscaler -n kube-system --image=registry.example.com/autoscaler:1';

/** Of other tools, of a takeover, other values of the chart, groups, Jobs and silences that other tests have, of containers that have not run before, and names that users give. */
const NOT_HERE =
  /longhorn|brupop-backup|helmreleases|restore-dependents|certificate -n|controller-(?:certificate|deployment)|brng (?:db|gpu|ledger|search)|brupop-slack|silence in|node-5|--previous|\$AGENT|\$since|NAMESPACE|NODE-1/u;
/** Every command of the pages, also those in sentences. */
const COMMANDS = userPages.flatMap((page) => {
  const text = readFileSync(join(import.meta.dirname, '../../..', page), 'utf8');
  const blocks = fencesOf(text).filter(({ info }) => info === 'sh');
  return [...blocks.flatMap((block) => splitCommands(block.text)).map((command) => command.trim()), ...spansOf(text)];
});
/** Those that only show something. */
const LOOKS = COMMANDS.filter(
  (command) => /^kubectl (?:get|describe|logs|explain) /u.test(command) && !NOT_HERE.test(command),
);
/** Those that change a node or its shadow; kubectl refuses to remove a taint that is not there. */
const CHANGES = COMMANDS.filter(
  (command) =>
    /^kubectl (?:annotate|delete|label|taint|uncordon) .*\bNODE\b/u.test(command) &&
    !/taint .*-$/u.test(command) &&
    !NOT_HERE.test(command),
);

/** The first part of a configuration on a page. */
function partOf(page: string): BrupopConfigSpec {
  const [part] = yamlExamplesOf(page).filter(({ is }) => is === 'part');
  return (parse(part?.text ?? '') as BrupopConfig).spec;
}

/** The commands that fail. */
async function failuresOf(commands: readonly string[], { cluster }: FleetContext): Promise<string[]> {
  const { items } = await cluster.api.get<V1PodList>('/api/v1/namespaces/brupop-bottlerocket-aws/pods');
  const pod = items[0]?.metadata?.name ?? '';
  const failures: string[] = [];
  for (const command of commands) {
    const named = command.replaceAll(/\bNODE(?![:=])\b/gu, 'node-1').replaceAll(/\bPOD(?!:)\b/gu, pod);
    await runCommands(cluster, `cd "$(mktemp -d)"; ${named}`).catch((error: unknown) => failures.push(String(error)));
  }
  return failures;
}

/** Looks at every object until it is stopped. */
class Onlooker {
  readonly #context: FleetContext;
  readonly #healthOf: (object: object) => Health;
  /** By the kind and name of an object: what it was, once each. */
  readonly seen = new Map<string, Set<string>>();
  /** What is not current at the latest look. */
  unsettled: string[] = [];

  constructor(context: FleetContext, healthOf: (object: object) => Health) {
    this.#context = context;
    this.#healthOf = healthOf;
  }

  async look(): Promise<void> {
    const { api } = this.#context.cluster;
    const lists = await Promise.all(OBJECTS.map(async (path) => await api.get<{ items: KubernetesObject[] }>(path)));
    this.unsettled = [];
    for (const object of lists.flatMap(({ items }) => items)) {
      const { kstatus, argo, kstatusMessage } = this.#healthOf(object);
      const { name } = object.metadata;
      const seen = this.seen.get(name) ?? new Set();
      this.seen.set(name, seen.add(`${kstatus} ${argo}`));
      if (kstatus !== 'Current') this.unsettled.push(`${name}: ${kstatus} ${kstatusMessage}`);
    }
  }
}

it('the documented commands turn on recovery and dependents, and no object has failed for GitOps tools meanwhile', async () => {
  const healthOf = await obtainHealth();
  const before = async (context: FleetContext): Promise<void> => {
    await createMembers(context, 'etcd', NAMES);
    await runCommands(context.cluster, AUTOSCALER);
    for (const name of NAMES) await setPool(context, name, 'web');
  };
  const config = { paused: true, quorums: [staticQuorum('etcd', 3)] };
  await withFleet({ nodes: NODES, config, before }, async (context) => {
    const { cluster, fleet } = context;
    await applyGroup(context, 'web', {});
    const onlooker = new Onlooker(context, healthOf);
    for (const page of ['docs/dependents.md', 'docs/recovery.md'])
      await cluster.api.patch(CONFIG, { spec: partOf(page) });
    // The chart does not allow them yet.
    await eventually(async () => {
      await onlooker.look();
      expect(onlooker.unsettled).toEqual([
        expect.stringMatching(/^cluster: Failed .*(?:dependents\.targets|recovery\.namespaces)/u),
      ]);
    });
    await runCommands(cluster, ALLOW_TARGET);
    await runCommands(cluster, ALLOW_RECOVERY);
    await withFile('shop.yaml', SHOP, async (file) => {
      await runCommands(cluster, `kubectl apply --server-side -f ${file}`);
    });
    await eventually(async () => {
      const shown = await runCommands(cluster, SHOWS.join('\n'));
      expect(shown).toMatch(/"reason":"NotScaled","status":"True"/u);
      expect(shown).toMatch(/"state":"Up","target":"cluster-autoscaler"/u);
    });
    const untilCurrent = async (): Promise<void> =>
      await eventually(async () => {
        await onlooker.look();
        expect(onlooker.unsettled).toEqual([]);
      });
    await untilCurrent();
    onlooker.seen.clear();

    await cluster.api.patch(CONFIG, { spec: { paused: false } });
    await eventually(
      async () => {
        await onlooker.look();
        for (const name of NAMES) fleet.assertRuns(name, NEW);
      },
      { limitMs: 300_000, pauseMs: 500 },
    );
    await untilCurrent();
    const states = [...onlooker.seen].map(([name, seen]) => [
      name,
      [...seen].filter((one) => /Failed|Degraded/u.test(one)),
    ]);
    expect(states).toEqual([...onlooker.seen.keys()].map((name) => [name, []]));
    for (const name of NAMES) expect(onlooker.seen.get(`brs-${name}`)).toContain('InProgress Progressing');
    const statusNow = async (): Promise<BrupopConfig['status']> => (await cluster.api.get<BrupopConfig>(CONFIG)).status;
    const status = await eventually(async () => {
      const found = await statusNow();
      expect(found?.quorums).toMatchObject([{ name: 'etcd', members: 3, ready: 3 }]);
      return found;
    });
    expect(status?.conditions?.find(({ type }) => type === 'RecoveryReady')).toMatchObject({ status: 'True' });

    expect(LOOKS.length).toBeGreaterThan(40);
    expect(await failuresOf(LOOKS, context)).toEqual([]);
    expect(CHANGES.length).toBeGreaterThan(10);
    expect(
      await failuresOf(
        CHANGES.map((command) => `${command} --dry-run=server`),
        context,
      ),
    ).toEqual([]);

    await runCommands(cluster, IGNORE);
    await runCommands(cluster, STUCK.replaceAll('REPLICAS', '1'));
  });
});
