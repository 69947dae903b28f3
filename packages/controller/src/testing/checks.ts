/** What a plan gets to know of checks, for tests. */
import type { ChecksView, Evaluation, JobView } from '../cluster/checks.ts';
import { type ChecksConfig, keyOf, type Probe } from '../cluster/probes.ts';
import type { UpdatePolicy } from '../policy/policy.ts';
import { probesNamed, templatesOf } from '../plan/facts/query-checks.ts';
import { NO_CHECKS_KNOWN } from './objects.ts';

export const NO_CHECKS: ChecksConfig = {
  namespace: '',
  serviceAccount: '',
  prometheus: { url: '', credentials: '' },
  alertmanager: { url: '', credentials: '' },
};

export const PASSED: Pick<Evaluation, 'passed' | 'found'> = { passed: true, found: 'all is well' };

/** All queries and templates of the configuration have this answer, of `now`. */
export function answered(
  policy: UpdatePolicy,
  now: number,
  answerOf: (probe: Probe) => Partial<Evaluation> = () => ({}),
): ChecksView['evaluations'] {
  const names = policy.health.checks.map(({ name }) => name);
  const probes = [
    ...probesNamed(policy, names),
    ...templatesOf(policy, new Set(policy.quorums.map(({ name }) => name))),
  ];
  return new Map(probes.map((probe) => [keyOf(probe), { ...PASSED, at: now, since: now, ...answerOf(probe) }]));
}

export function viewOf(
  evaluations: ChecksView['evaluations'],
  jobs: ReadonlyMap<string, JobView> = new Map(),
): ChecksView {
  return { ...NO_CHECKS_KNOWN, evaluations, jobs };
}
