/**
 * The proxy of requests, as kubectl finds it: that of the kubeconfig, or else that of HTTPS_PROXY, except for this machine
 * and for what NO_PROXY names (Go "golang.org/x/net/http/httpproxy").
 */
import { BlockList, isIP } from 'node:net';
import { UsageError } from './errors.ts';
import type { Access } from './kubeconfig.ts';

type Env = Readonly<Record<string, string | undefined>>;

/** Undefined: none. Throws UsageError for one that is no URL, without quoting it: it may have a password. */
export function proxyOf({ server, 'proxy-url': own }: Access['cluster'], env: Env): string | undefined {
  const proxy = own ?? proxyIn(env, new URL(server));
  if (proxy === undefined) return undefined;
  if (!URL.canParse(proxy))
    throw new UsageError('proxy-url or HTTPS_PROXY: expected the URL of a proxy, found something else');
  // The proxy looks names up, since only it may know those of a private network.
  return proxy.replace(/^socks5:/u, 'socks5h:');
}

function proxyIn(env: Env, server: URL): string | undefined {
  const proxy = env['HTTPS_PROXY'] || env['https_proxy'] || '';
  if (proxy === '' || server.protocol !== 'https:' || isDirect(server, env)) return undefined;
  return proxy.includes('://') ? proxy : `http://${proxy}`;
}

function isDirect({ hostname, port }: URL, env: Env): boolean {
  const host = hostname.replaceAll(/^\[|\]$/gu, '');
  if (host === 'localhost' || isIn(host, '127.0.0.0/8') || isIn(host, '::1')) return true;
  const names = (env['NO_PROXY'] || env['no_proxy'] || '').toLowerCase().split(',');
  const given = names.map((name) => name.trim()).filter((name) => name !== '');
  return given.some((name) => covers(name, host, port || '443'));
}

/** A block of addresses, or an address or a domain, both with or without a port; `*` is everything. */
function covers(name: string, host: string, port: string): boolean {
  if (name === '*' || isIn(host, name)) return true;
  if (isIP(name) !== 0) return false;
  const { of = '', only = port } = /^\[?(?<of>[^\]]*?)\]?(?::(?<only>\d+))?$/u.exec(name)?.groups ?? {};
  return only === port && (isIn(host, of) || isOf(host, of.replace(/^\*\./u, '.')));
}

/** With a dot before it, a domain is only what is below it. */
function isOf(host: string, domain: string): boolean {
  return host === domain || host.endsWith(domain.startsWith('.') ? domain : `.${domain}`);
}

/** @param block - an address, or a block as in 10.0.0.0/8; anything else has no addresses */
function isIn(host: string, block: string): boolean {
  const [address = '', length] = block.split('/');
  const size = isIP(address) === 4 ? 32 : 128;
  const bits = length === undefined ? size : Number(length);
  if (isIP(address) === 0 || isIP(host) === 0 || !Number.isInteger(bits) || bits < 0 || bits > size) return false;
  const list = new BlockList();
  list.addSubnet(address, bits, familyOf(address));
  return list.check(host, familyOf(host));
}

function familyOf(address: string): 'ipv4' | 'ipv6' {
  return isIP(address) === 4 ? 'ipv4' : 'ipv6';
}
