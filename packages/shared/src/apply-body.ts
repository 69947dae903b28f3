/** Line breaks of YAML that are none of JSON, and what YAML forbids (YAML 1.1, 5.1 and 5.4). */
const OTHER_THAN_JSON = /[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/gu;
/** Half a surrogate pair, as JSON.stringify writes it; an even number of backslashes before it are none of its own. */
const LONE_SURROGATE = /(?<!\\)((?:\\\\)*)\\ud[89a-f][0-9a-f]{2}/gu;

/**
 * JSON that means the same when it is read as YAML, which the API server does with what is applied: a text that has a line separator would come
 * out with spaces instead, and one with a control character would be refused. Half a surrogate pair becomes U+FFFD, as everywhere in Kubernetes.
 */
export function applyBody(value: unknown): string {
  return JSON.stringify(value)
    .replaceAll(OTHER_THAN_JSON, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)
    .replaceAll(LONE_SURROGATE, '$1\\ufffd');
}
