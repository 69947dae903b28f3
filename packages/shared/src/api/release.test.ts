import { AGENT_USER_AGENT, agentSkew, buildIn } from './release.ts';

const skew = (userAgent: string | undefined, own?: string): string | undefined => agentSkew(userAgent, own)?.reason;

it('supports agents of the same release, and of one minor version before and after', () => {
  expect(agentSkew(AGENT_USER_AGENT)).toBeUndefined();
  for (const release of ['1.4.9', '1.5.0', '1.5.3-rc.1', '1.6.0', 'v1.6.0+build'])
    expect([release, skew(`brupop-agent/${release}`, '1.5.2')]).toEqual([release, undefined]);
});

it.each([
  ['1.3.9', 'AgentTooOld'],
  ['0.5.0', 'AgentTooOld'],
  ['1.7.0', 'AgentTooNew'],
  ['2.5.0', 'AgentTooNew'],
])('rejects %s for 1.5.2 as %s, and names both', (release, reason) => {
  const found = agentSkew(`brupop-agent/${release}`, '1.5.2');
  expect(found?.reason).toBe(reason);
  expect(found?.message).toContain(`the release ${release}, `);
  expect(found?.message).toContain('API server with 1.5.2: ');
});

it('reads the build of an agent, and names its release only', () => {
  const build = `1.7.0+${'a'.repeat(40)}-dirty`;
  expect(buildIn(`brupop-agent/${build}`)).toBe(build);
  expect(agentSkew(`brupop-agent/${build}`, '1.5.2')?.message).toContain('has the release 1.7.0, ');
});

it('takes an agent without a release for one of before 0.1.0', () => {
  const forged = ['brupop-agent/', 'brupop-agent/1', 'curl/8.0.0', `brupop-agent/0.1.0-${'x'.repeat(100)}`];
  for (const userAgent of [undefined, '', ...forged]) {
    expect([userAgent, skew(userAgent, '0.1.0')]).toEqual([userAgent, undefined]);
    expect([userAgent, skew(userAgent, '0.2.0')]).toEqual([userAgent, 'AgentTooOld']);
  }
  expect(agentSkew('brupop-agent/\u001B[31m', '0.2.0')?.message).toContain('does not send its release');
});
