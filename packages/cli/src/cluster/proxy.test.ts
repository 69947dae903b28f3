import { proxyOf } from './proxy.ts';

const HTTPS_PROXY = 'http://proxy:3128';

function used(server: string, NO_PROXY: string): boolean {
  return proxyOf({ server }, { HTTPS_PROXY, NO_PROXY }) !== undefined;
}

describe('the proxy', () => {
  it.each([
    ['of the kubeconfig', { 'proxy-url': 'http://own:1' }, { HTTPS_PROXY }, 'http://own:1'],
    ['of the kubeconfig, whatever NO_PROXY says', { 'proxy-url': 'http://own:1' }, { NO_PROXY: '*' }, 'http://own:1'],
    ['of the environment', {}, { HTTPS_PROXY }, HTTPS_PROXY],
    ['of the environment in lower case', {}, { HTTPS_PROXY: '', https_proxy: HTTPS_PROXY }, HTTPS_PROXY],
    ['of the environment without its protocol', {}, { HTTPS_PROXY: 'proxy:3128' }, HTTPS_PROXY],
    ['that looks names up', {}, { HTTPS_PROXY: 'socks5://proxy:1080' }, 'socks5h://proxy:1080'],
    ['of SOCKS in the kubeconfig', { 'proxy-url': 'socks5://proxy:1080' }, {}, 'socks5h://proxy:1080'],
    ['that there is not', {}, { HTTP_PROXY: HTTPS_PROXY, ALL_PROXY: HTTPS_PROXY }, undefined],
    ['for a server without TLS', { server: 'http://k8s.example.com' }, { HTTPS_PROXY }, undefined],
  ])('%s', (_, cluster, env, expected) => {
    expect(proxyOf({ server: 'https://k8s.example.com:6443', ...cluster }, env)).toBe(expected);
  });

  it('that is no URL is refused, and not quoted', () => {
    const env = { HTTPS_PROXY: 'http://user:secret@proxy:port' };
    expect(() => proxyOf({ server: 'https://k8s.example.com' }, env)).toThrow(
      /^proxy-url or HTTPS_PROXY: expected the URL of a proxy, found something else$/u,
    );
  });

  it.each(['https://localhost:6443', 'https://127.0.0.1', 'https://127.9.9.9:6443', 'https://[::1]:6443'])(
    'is never used for this machine: %s',
    (server) => expect(used(server, '')).toBe(false),
  );
});

describe('NO_PROXY', () => {
  it.each([
    ['https://k8s.example.com:6443', 'k8s.example.com'],
    ['https://k8s.example.com:6443', 'other.org, EXAMPLE.com'],
    ['https://k8s.example.com:6443', '.example.com'],
    ['https://k8s.example.com:6443', '*.example.com'],
    ['https://k8s.example.com:6443', 'example.com:6443'],
    ['https://k8s.example.com', 'example.com:443'],
    ['https://10.1.2.3:6443', '10.1.2.3'],
    ['https://10.1.2.3:6443', '10.1.2.3:6443'],
    ['https://10.1.2.3:6443', '192.168.0.0/16,10.0.0.0/8'],
    ['https://[fd00::2]:6443', 'FD00:0::2'],
    ['https://[fd00::2]:6443', '[fd00::2]:6443'],
    ['https://[fd00::2]:6443', 'fd00::/8'],
    ['https://k8s.example.com', '*'],
  ])('names %s by %s', (server, names) => expect(used(server, names)).toBe(false));

  it.each([
    ['https://k8s.example.com', ''],
    ['https://k8s.example.com', ' , '],
    ['https://k8s.example.com', 'ample.com'],
    ['https://example.com', '.example.com'],
    ['https://k8s.example.com:6443', 'example.com:443'],
    ['https://10.1.2.3:6443', '10.1.2.3:443'],
    ['https://10.1.2.3', '10.1.2.30,11.0.0.0/8,10.0.0.0/33,10.0.0.0/x'],
    ['https://[fd00::2]:6443', 'fd00::3,fe80::/10,10.0.0.0/8'],
    ['https://[fd00::2]:6443', '[fd00::2]:443'],
  ])('does not name %s by %j', (server, names) => expect(used(server, names)).toBe(true));
});
