import { readFileSync } from 'node:fs';
import { historyKey, type PastUpdate } from '@brupop/shared/api/history';
import type { BottlerocketShadow } from '@brupop/shared/api/shadow';
import { parseTime } from '@brupop/shared/runtime/clock';
import type { Fleet } from '../cluster/fleet.ts';
import { reportOf, reportPage } from './report.ts';

const now = parseTime('2026-11-28T12:00:00Z') ?? 0;
const seconds = { StagedAndPerformedUpdate: 130, RebootedIntoUpdate: 520, MonitoringUpdate: 240 };
const success: PastUpdate = {
  start: '2026-11-28T09:45:10Z',
  end: '2026-11-28T10:00:00Z',
  from: '1.20.3',
  to: '1.21.0',
  outcome: 'Succeeded',
  attempt: 1,
  group: 'workers',
  seconds,
};
const failure: PastUpdate = { ...success, start: '2026-11-28T11:05:00Z', outcome: 'Failed', code: 'RolledBack' };
const earlier: PastUpdate = { ...success, start: '2026-11-01T09:00:00Z', from: '1.19.5', to: '1.20.3' };

function shadow(node: string, updates: readonly PastUpdate[]): BottlerocketShadow {
  const annotations = Object.fromEntries(updates.map((one, number) => [historyKey(number), JSON.stringify(one)]));
  return { metadata: { name: `brs-${node}`, uid: node, resourceVersion: '1', annotations }, spec: { state: 'Idle' } };
}

function fleet(manager = 'kubectl-edit'): Fleet {
  const changes = [
    { object: 'BrupopConfig "cluster"', manager, time: '2026-11-28T10:30:00Z', fields: ['rollout.approvedVersion'] },
  ];
  const rollout = { version: '1.21.0', startTime: '2026-11-28T09:45:10Z', nodes: 1, failures: 1, changes };
  return {
    config: {
      metadata: { name: 'cluster', uid: 'c', resourceVersion: '1' },
      spec: {},
      status: { rollouts: [rollout] },
    },
    shadows: [shadow('a', [earlier, success]), shadow('b', [failure])],
  };
}

function page(of: Fleet): string {
  const report = reportOf(of, undefined);
  return report === undefined ? '' : reportPage(report, now);
}

it('is as in the golden file', () => {
  expect(page(fleet())).toBe(readFileSync(new URL('golden/report.html.txt', import.meta.url), 'utf8'));
});

it('is about the version of the latest rollout, or the given one', () => {
  expect(reportOf(fleet(), undefined)?.updates).toHaveLength(2);
  expect(reportOf(fleet(), '1.20.3')?.updates).toEqual([{ node: 'a', ...earlier }]);
});

it('names a version that is frozen or was held', () => {
  const { config, shadows } = fleet();
  if (config?.status === undefined) throw new Error('no status');
  expect(page({ config, shadows })).not.toMatch(/<dt>(Frozen|Held)/u);
  const since = '2026-11-28T11:00:00Z';
  const versions = [
    { version: '1.20.9', since: '2026-11-20T11:00:00Z' },
    { version: '1.21.0', since },
  ];
  const status = { ...config.status, frozenVersions: versions, heldVersions: versions };
  const shown = page({ config: { ...config, status }, shadows });
  expect(shown).toContain(`<dt>Frozen</dt><dd>since ${since}: `);
  expect(shown).toContain(`<dt>Held</dt><dd>first at ${since}: `);
});

it('has no column without a value', () => {
  const { group: _, ...without } = success;
  const shown = page({ ...fleet(), shadows: [shadow('a', [without])] });
  expect(shown).not.toContain('>Group<');
  expect(page(fleet())).toContain('>Group<');
});

it('there is none before the first update', () => {
  expect(reportOf({ config: undefined, shadows: [] }, undefined)).toBeUndefined();
});

it('loads nothing and runs nothing', () => {
  expect(page(fleet())).not.toMatch(/<script|<link|<img|src=|href=|url\(|@import/u);
});

it.each([
  ['<script>alert(1)</script>', '&lt;script&gt;alert(1)&lt;/script&gt;'],
  [`"onload='x'&amp;`, '&quot;onload=&#39;x&#39;&amp;amp;'],
  ['left\u202Eright\u2066', 'left right '],
])('shows %j of an object as text', (manager, shown) => {
  expect(page(fleet(manager))).toContain(`<td>${shown}</td>`);
});
