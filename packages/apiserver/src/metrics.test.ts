import { AGENT_USER_AGENT, buildIn } from '@brupop/shared/api/release';
import { RELEASE, REVISION } from '@brupop/shared/runtime/build';
import { createRegistry } from '@brupop/shared/runtime/metrics';
import { countStreams, createMetrics } from './metrics.ts';

describe('the builds of agents', () => {
  const registry = createRegistry('brupop-apiserver');
  const count = countStreams(createMetrics(registry));
  const own = `brupop_build_info{component="brupop-apiserver",version="${RELEASE}",revision="${REVISION}"} 1`;
  const series = async (name: string): Promise<string[]> =>
    (await registry.metrics()).split('\n').filter((line) => line.startsWith(`${name}{`));

  it('are shown beside the own one while an agent of them has a stream', async () => {
    for (const build of ['1.2.0+abc', '1.2.0+abc', '1.2.0+def', '1.1.0', '']) count(1, build);
    count(-1, '1.2.0+abc');
    const agent = (version: string, revision: string): string =>
      `brupop_build_info{component="brupop-agent",version="${version}",revision="${revision}"} 1`;
    expect(await series('brupop_build_info')).toEqual([
      own,
      agent('1.2.0', 'abc'),
      agent('1.2.0', 'def'),
      agent('1.1.0', ''),
      agent('', ''),
    ]);
    expect(await series('brupop_apiserver_streams')).toEqual([
      'brupop_apiserver_streams{agent_version="1.2.0"} 2',
      'brupop_apiserver_streams{agent_version="1.1.0"} 1',
      'brupop_apiserver_streams{agent_version=""} 1',
    ]);
    for (const build of ['1.2.0+abc', '1.2.0+def', '1.1.0', '']) count(-1, build);
    expect(await series('brupop_build_info')).toEqual([own]);
  });

  it('have a bound, whatever clients send', async () => {
    const builds = Array.from({ length: 100 }, (_, i) => `1.${i}.0+${i}`);
    for (const build of builds) count(1, build);
    const found = await series('brupop_build_info');
    expect(found).toHaveLength(22);
    expect(found).toContain('brupop_build_info{component="brupop-agent",version="other",revision="other"} 1');
    for (const build of builds) count(-1, build);
    expect(await series('brupop_build_info')).toEqual([own]);
  });

  it('include the own one, also of agents that connect after clients that send many', async () => {
    const builds = Array.from({ length: 20 }, (_, i) => `1.${i}.0+${i}`);
    const agent = buildIn(AGENT_USER_AGENT);
    for (const build of [...builds, agent]) count(1, build ?? '');
    const [version, revision = ''] = agent?.split('+') ?? [];
    expect(await series('brupop_build_info')).toContain(
      `brupop_build_info{component="brupop-agent",version="${version}",revision="${revision}"} 1`,
    );
    expect(await series('brupop_apiserver_streams')).toContain(
      `brupop_apiserver_streams{agent_version="${RELEASE}"} 1`,
    );
    for (const build of [...builds, agent]) count(-1, build ?? '');
    expect(await series('brupop_build_info')).toEqual([own]);
  });
});
