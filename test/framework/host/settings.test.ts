import { nest, Settings } from './settings.ts';

function committed(settings: Settings, ...bodies: object[]): unknown {
  for (const body of bodies) {
    expect(settings.patch('tx', JSON.stringify(body))).toBeUndefined();
    settings.commit('tx');
  }
  return nest([...settings.live].filter(([key]) => !/^settings\.(?:motd|updates)/.test(key)));
}

describe('the settings of the stand-in host', () => {
  it('stores kernel and init parameters under their short names', () => {
    const boot = { 'kernel-parameters': { 'ipv6.disable': ['1'] }, 'init-parameters': { log: ['x'] } };
    const stored = { boot: { kernel: { 'ipv6.disable': ['1'] }, init: { log: ['x'] }, 'reboot-to-reconcile': true } };
    expect(committed(new Settings(), { boot }, { boot: { 'reboot-to-reconcile': true } })).toEqual(stored);
    expect(committed(new Settings(), stored)).toEqual(stored);
  });

  it('stores a map of mirrors as a list', () => {
    const mirrors = { 'docker.io': ['https://a'], 'b.io': ['https://b'] };
    const stored = [
      { registry: 'docker.io', endpoint: ['https://a'] },
      { registry: 'b.io', endpoint: ['https://b'] },
    ];
    expect(committed(new Settings(), { 'container-registry': { mirrors } })).toEqual({
      'container-registry': { mirrors: stored },
    });
    expect(committed(new Settings(), { 'container-registry': { mirrors: stored } })).toEqual({
      'container-registry': { mirrors: stored },
    });
  });

  it('merges maps by their leaves, replaces lists, and takes null for nothing', () => {
    const first = { kernel: { sysctl: { 'a.b': '1', c: '1' } }, ntp: { 'time-servers': ['x', 'y'] } };
    const second = { kernel: { sysctl: { c: '2', 'a.b': null } }, ntp: { 'time-servers': ['z'] } };
    const stored = { kernel: { sysctl: { 'a.b': '1', c: '2' } }, ntp: { 'time-servers': ['z'] } };
    expect(committed(new Settings(), first, second)).toEqual(stored);
  });

  it('has the settings of NVIDIA drivers in the variants with these alone', () => {
    const body = { 'kubelet-device-plugins': { nvidia: { 'pass-device-specs': true } } };
    expect(committed(new Settings('aws-k8s-1.31-nvidia'), body)).toEqual(body);
    expect(new Settings('aws-k8s-1.31').patch('tx', JSON.stringify(body))?.text).toContain(
      'unknown field `kubelet-device-plugins`',
    );
  });

  it.each([
    [{ kernel: { sysctl: { c: 1 } } }, 'invalid type: integer `1`, expected a string at line 1 column 26'],
    [{ kernel: { sysctl: { c: true } } }, 'invalid type: boolean `true`, expected a string at line 1 column 29'],
    [{ motd: [] }, 'invalid type: sequence, expected a string at line 1 column 10'],
    [{ kubernetes: { 'node-taints': { a: [] } } }, 'empty taint value at line 1 column 37'],
  ])('refuses %j and stages nothing of it', (body, reason) => {
    const settings = new Settings();
    expect(settings.patch('tx', JSON.stringify(body))?.text).toBe(`Json deserialize error: ${reason}`);
    expect(settings.transactions).toEqual([]);
  });
});
