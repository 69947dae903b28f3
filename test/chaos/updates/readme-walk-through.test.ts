/** The commands of README in their order, on a whole fleet, and what the configuration says after each. */
import { jest } from '@jest/globals';
import type { BrupopConfig } from '../../../packages/shared/src/api/brupop-config.ts';
import { commandsOf, runCommands, splitCommands } from '../../framework/commands.ts';
import { eventually } from '../../framework/eventually.ts';
import { fleetNodes } from '../../framework/fleet/fleet.ts';
import { type FleetContext, NEW, withFleet } from '../../framework/fleet/with-fleet.ts';

jest.setTimeout(600_000);

const NODES = fleetNodes(3);
const [FIRST = { name: '' }] = NODES;
const [CREATE = '', ALLOW = '', INSTALL = '', MANAGE = ''] = splitCommands(commandsOf('README.md', 'Install'));
const [CONFIGURE = ''] = splitCommands(commandsOf('README.md', 'Configure'));
const operate = splitCommands(commandsOf('README.md', 'Operate'));
const [PAUSE = '', RESUME = ''] = operate.filter((command) => command.startsWith('kubectl patch brc'));
const [STOP_MANAGING = ''] = operate.filter((command) => command.startsWith('kubectl label'));
const [EVENTS = ''] = operate.filter((command) => command.startsWith('kubectl get events'));
const LOOKS = operate.filter((command) => /^kubectl (?:get|describe)/u.test(command));

const CONFIGURED = {
  maintenance: { timeZone: 'Europe/Berlin', windows: [{ schedule: '0 22 * * SAT', duration: '8h' }] },
  concurrency: { maxUpdating: '10%' },
  versions: { minimumAge: '72h' },
};

/** The spec, when the controller has followed it. */
async function specInForce({ cluster: { api } }: FleetContext): Promise<BrupopConfig['spec']> {
  return await eventually(async () => {
    const config = await api.get<BrupopConfig>('/apis/brupop.bottlerocket.aws/v1alpha1/brupopconfigs/cluster');
    expect(config.status?.inForce?.generation).toBe(config.metadata.generation);
    return config.spec;
  });
}

/** The namespace is there, and the nodes join with their label. */
async function install({ cluster, fleet }: FleetContext): Promise<void> {
  for (const { name } of NODES) await fleet.node(name).setManaged(false);
  for (const command of [CREATE, ALLOW, INSTALL]) await runCommands(cluster, command);
}

/** The Events show that each node has ended before the next one starts, also within one second. */
function expectNodesInTurn(events: string): void {
  const steps = [...events.matchAll(/(?<step>UpdateStarted|UpdateSucceeded) +node\/(?<node>\S+)/gu)];
  const told = steps.map(({ groups }) => `${groups?.['step']} ${groups?.['node']}`);
  const nodes = told.filter((_, index) => index % 2 === 0).map((text) => text.replace('UpdateStarted ', ''));
  expect(nodes.toSorted()).toEqual(NODES.map(({ name }) => name));
  expect(told).toEqual(nodes.flatMap((node) => [`UpdateStarted ${node}`, `UpdateSucceeded ${node}`]));
}

it('the documented commands install, update, configure, pause and resume, and each keeps what the others set', async () => {
  await withFleet({ nodes: NODES, install }, async (context) => {
    const { cluster, fleet } = context;
    for (const { name } of NODES) await runCommands(cluster, MANAGE.replaceAll('NODE', name));
    await fleet.untilAllRun(NEW);
    expect(await specInForce(context)).toEqual({});
    await eventually(async () => expectNodesInTurn(await runCommands(cluster, EVENTS)));

    await runCommands(cluster, CONFIGURE);
    expect(await specInForce(context)).toEqual(CONFIGURED);
    await runCommands(cluster, PAUSE);
    expect(await specInForce(context)).toEqual({ ...CONFIGURED, paused: true, pauseReason: 'change freeze' });
    await runCommands(cluster, RESUME);
    expect(await specInForce(context)).toEqual({ ...CONFIGURED, paused: false });
    // As often as a user likes, also after the object was applied again.
    for (const command of [CONFIGURE, PAUSE, CONFIGURE]) await runCommands(cluster, command);
    expect(await specInForce(context)).toEqual({ ...CONFIGURED, paused: true, pauseReason: 'change freeze' });
    await runCommands(cluster, RESUME);
    expect(await specInForce(context)).toEqual({ ...CONFIGURED, paused: false });

    for (const command of LOOKS) expect(await runCommands(cluster, command)).not.toBe('');
    await runCommands(cluster, STOP_MANAGING.replaceAll('NODE', FIRST.name));
    await eventually(() => expect(fleet.shadow(FIRST.name)).toBeUndefined(), { limitMs: 120_000 });
  });
});
