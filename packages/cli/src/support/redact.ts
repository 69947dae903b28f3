/**
 * Takes out of objects and logs what may be a secret, and, if asked for, the names of nodes and addresses.
 *
 * Values of environment variables and of annotations that are not the operator's are never kept; of every other text, what
 * looks like a credential is replaced. The same name or address gets the same substitute throughout, so that what belongs
 * together can still be found. managedFields are kept: they have the names of fields, not their values.
 */
import { isIPv6 } from 'node:net';
import { GROUP, shadowName } from '@brupop/shared/api/names';

export const REDACTED = '<redacted>';

/** What looks like a credential, with a text that says what it was. */
const CREDENTIALS: readonly (readonly [RegExp, string])[] = [
  [/-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)/gu, '<redacted private key>'],
  // What has no second part is seen once, from its start: a kubelet may repeat the start of a token a million times.
  [
    /(?<![\w-])(?=[\w-]+\.[\w-]{8,}\.)(?<before>[\w-]*?)\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*/gu,
    '$<before><redacted token>',
  ],
  [/\b(?<kind>Bearer|Basic) +[\w+./=~-]{8,}/giu, '$<kind> <redacted>'],
  [/(?<=:\/\/)[^\s/@:]+:[^\s/@]+(?=@)/gu, REDACTED],
  [/\b(?:AKIA|ASIA)[0-9A-Z]{16}\b/gu, '<redacted key>'],
  [
    /\b(?<key>password|passwd|secret|token|api[-_]?key|authorization)(?<sep>["']?\s*[=:]\s*["']?)(?!<redacted)[^\s"',;&}<]{4,}/giu,
    '$<key>$<sep><redacted>',
  ],
];

/** Annotations of these domains say what the operator, kubelets and autoscalers do; the values of others are not kept. */
const KEPT_ANNOTATIONS = [GROUP, 'bottlerocket.aws', 'cluster-autoscaler.kubernetes.io', 'karpenter.sh'];
const IPV4 = /\b(?:\d{1,3}\.){3}\d{1,3}\b/gu;
/** What may be an IPv6 address; Node.js says whether it is one. */
const COLONS = /[\da-f:]{2,39}/giu;
/** What may be a name of an object, or a host name. */
const WORD = /[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?/gu;
const MAX_DEPTH = 50;

type Fields = Record<string, unknown>;

/** Of a Node and of its shadow. */
const MAX_NAME = 253;

/** Also of a name with more after it: an Event is named after its object. */
function substituteOf(word: string, names: ReadonlyMap<string, string>): string | undefined {
  const longest = word.length > MAX_NAME ? word.lastIndexOf('.', MAX_NAME) : word.length;
  for (let end = longest; end > 0; end = word.lastIndexOf('.', end - 1)) {
    const known = names.get(word.slice(0, end));
    if (known !== undefined) return `${known}${word.slice(end)}`;
  }
  return undefined;
}

export class Redaction {
  /** How often something was replaced, by what. */
  readonly counts = { credentials: 0, environment: 0, annotations: 0, names: 0 };
  readonly #names: Map<string, string> | undefined;
  readonly #addresses = new Map<string, string>();

  /** @param nodes - the names of nodes to replace; undefined: names and addresses are kept */
  constructor(nodes?: readonly string[]) {
    this.#names = nodes === undefined ? undefined : new Map();
    for (const [index, node] of (nodes ?? []).entries()) {
      const substitute = `node-${index + 1}`;
      // A host name is often the first part of the name of its Node.
      for (const name of [node.split('.')[0] ?? node, node]) this.#names?.set(name, substitute);
      this.#names?.set(shadowName(node), shadowName(substitute));
    }
  }

  text(text: string): string {
    let result = text;
    for (const [pattern, substitute] of CREDENTIALS)
      result = result.replace(pattern, (...found: unknown[]) => {
        this.counts.credentials += 1;
        const groups = (found.at(-1) ?? {}) as Record<string, string>;
        return substitute.replaceAll(/\$<(\w+)>/gu, (_, name: string) => groups[name] ?? '');
      });
    return this.#names === undefined ? result : this.#withoutNames(result, this.#names);
  }

  /** A copy of an object of the API. */
  object(value: unknown): unknown {
    return this.#value(value, '', 0);
  }

  #value(value: unknown, key: string, depth: number): unknown {
    if (typeof value === 'string') return this.text(value);
    if (typeof value !== 'object' || value === null) return value;
    if (depth > MAX_DEPTH) return REDACTED;
    if (Array.isArray(value)) {
      if (key === 'env') return value.map((one) => this.#variable(one));
      return value.map((one) => this.#value(one, '', depth + 1));
    }
    if (key === 'annotations') return this.#annotations(value as Fields);
    return this.#fields(value as Fields, depth);
  }

  #fields(fields: Fields, depth: number): Fields {
    const entries = Object.entries(fields).map(([key, one]) => [this.text(key), this.#value(one, key, depth + 1)]);
    return Object.fromEntries(entries) as Fields;
  }

  /** References to Secrets and ConfigMaps have names only, and are kept. */
  #variable(variable: unknown): unknown {
    const { value, ...rest } = variable as Fields;
    if (value === undefined || value === '') return this.#fields(rest, 0);
    this.counts.environment += 1;
    return { ...this.#fields(rest, 0), value: REDACTED };
  }

  #annotations(annotations: Fields): Fields {
    const entries = Object.entries(annotations).map(([key, value]) => {
      const domain = key.split('/')[0] ?? '';
      const isKept = KEPT_ANNOTATIONS.some((one) => domain === one || domain.endsWith(`.${one}`));
      if (isKept) return [key, this.#value(value, '', 0)] as const;
      this.counts.annotations += 1;
      return [key, REDACTED] as const;
    });
    return Object.fromEntries(entries);
  }

  #withoutNames(text: string, names: ReadonlyMap<string, string>): string {
    const replaced = (known: string | undefined, word: string): string => {
      if (known === undefined) return word;
      this.counts.names += 1;
      return known;
    };
    return text
      .replaceAll(WORD, (word) => replaced(substituteOf(word, names), word))
      .replaceAll(IPV4, (address) => replaced(this.#address(address), address))
      .replaceAll(COLONS, (found) => (isIPv6(found) ? replaced(this.#address(found), found) : found));
  }

  #address(address: string): string {
    const known = this.#addresses.get(address) ?? `address-${this.#addresses.size + 1}`;
    this.#addresses.set(address, known);
    return known;
  }
}
