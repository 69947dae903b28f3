import type { BrupopConfigStatus } from '@brupop/shared/api/brupop-config';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { anApplyContext } from '../testing/apply-context.ts';
import { ago, aManagedNode, aSnapshot, MINUTE, NEW, NOW } from '../testing/objects.ts';
import { wholePlan } from '../whole-plan.ts';
import { ConfigWriter } from './brupop-config.ts';

const failed = (name: string) =>
  aManagedNode(name, {}, { record: { failed: { version: NEW, code: 'RolledBack', at: ago(MINUTE) } } });

/**
 * A leader of a fleet whose watch shows of its configuration what it showed at first. `turn` plans, and writes the status.
 * @param read - the status as the leader has read it; undefined: as the watch shows it
 */
function lead(read?: BrupopConfigStatus) {
  const clock = new FakeClock(NOW);
  const events: string[] = [];
  const written: BrupopConfigStatus[] = [];
  const apply = async (_: string, { status }: { status: BrupopConfigStatus }) => void written.push(status);
  const context = anApplyContext({ clock, client: { apply }, record: ({ reason }) => events.push(reason) });
  const { config, ...rest } = aSnapshot([failed('a'), failed('b')], {});
  const writer = new ConfigWriter(context, read && config && { ...config, status: read });
  const turn = async (status?: BrupopConfigStatus) => {
    const shown = config && { ...config, ...(status !== undefined && { status }) };
    const snapshot = writer.withWritten({ ...rest, config: shown });
    await writer.write(snapshot.config, wholePlan(snapshot, clock.now()), true);
    return writer.withWritten({ config: shown }).config?.status?.frozenVersions;
  };
  return { clock, events, written, turn };
}

test('a freeze is reported once, and with the same time, also while the watch of the configuration hangs', async () => {
  const { clock, events, turn } = lead();
  const first = await turn();
  expect(first).toMatchObject([{ version: NEW }]);
  for (let seconds = 0; seconds < 110; seconds += 10) {
    await clock.advance(10_000);
    expect(await turn()).toEqual(first);
  }
  expect(events.filter((reason) => reason === 'Frozen')).toEqual(['Frozen']);
});

test('what another actor has edited counts half a minute after the latest write', async () => {
  const { clock, turn } = lead();
  const first = await turn();
  const edited = { frozenVersions: [{ version: NEW, since: ago(60 * MINUTE) }] };
  expect(await turn(edited)).toEqual(first);
  await clock.advance(MINUTE);
  expect(await turn(edited)).toEqual(edited.frozenVersions);
});

test('the next leader, whose watch hangs, does not repeat a freeze that it has read', async () => {
  const before = lead();
  const first = await before.turn();
  const { clock, events, written, turn } = lead(before.written[0]);
  const shown = {};
  for (let seconds = 0; seconds < 110; seconds += 10) {
    expect(await turn(shown)).toEqual(first);
    await clock.advance(10_000);
  }
  expect([events, written]).toEqual([[], []]);
});
