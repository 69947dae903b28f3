/**
 * Texts that an agent reports are shown to users by `kubectl`, in Events and in logs. An agent on a
 * compromised node may send any text.
 */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { jest } from '@jest/globals';
import type { AgentShadow } from '../../../packages/shared/src/api/agent-protocol.ts';
import type { BottlerocketShadow } from '../../../packages/shared/src/api/shadow.ts';
import type { Answer } from '../../framework/apiserver/agent-client.ts';
import { type Agent, createAgent } from '../../framework/apiserver/cluster.ts';
import { ensureShadow, FAILED_STAGE, idleStatus, shadowPath } from '../../framework/apiserver/shadow.ts';
import { useApiserver } from '../../framework/apiserver/suite.ts';

jest.setTimeout(60_000);

/** A line of `describe`, a window title, a reversed version, line breaks of YAML, characters that YAML rejects. */
const hostile =
  'disk full\n  Waiting For:  nothing\u2028x: y\u2029\u0085\r\u001B]0;owned\u0007\u009B31m\u202E0.12.1\u202C\u2066\u2069' +
  '\u200E\u200F\u061C\u200B\uFEFF\u007F\u0000\uFFFF\uD800 \u{E0041}';
const shown = 'disk full\uFFFD  Waiting For:  nothing\uFFFDx: y';
/** All that a terminal or YAML does not show as it is, but the line breaks that kubectl writes. */
const INVISIBLE = /[\p{C}\p{Zl}\p{Zp}]/u;

describe('hostile text of an agent', () => {
  const suite = useApiserver();
  let agent: Agent;
  let shadowUID: string;

  beforeEach(async () => {
    agent = await createAgent(suite.cluster, suite.namespace);
    shadowUID = await ensureShadow(suite.cluster, suite.namespace, agent.node);
  });

  const report = async (changes: object): Promise<Answer<AgentShadow>> =>
    await suite.apiserver.client.act(agent, 'shadow/status', { shadowUID, status: { ...idleStatus(), ...changes } });

  const kubectl = async (...args: string[]): Promise<string> =>
    (await promisify(execFile)('kubectl', ['-n', suite.namespace, ...args], { env: suite.cluster.env })).stdout;

  it('is shown by kubectl on one line, with U+FFFD for what is not printable', async () => {
    const changes = { lastOperation: { ...FAILED_STAGE, message: hostile }, settings: { message: hostile } };
    expect((await report(changes)).status).toBe(200);
    const name = `brs-${agent.node}`;
    const [yaml, described, wide] = await Promise.all([
      kubectl('get', 'brs', '-o', 'yaml'),
      kubectl('describe', 'brs', name),
      kubectl('get', 'brs', name, '-o', 'wide'),
    ]);
    expect(yaml).toContain(shown);
    expect(described).toMatch(new RegExp(`^ +Message: +${shown}`, 'mu'));
    for (const text of [yaml, described, wide]) expect(text.replaceAll('\n', '')).not.toMatch(INVISIBLE);
    expect(described).not.toMatch(/^\s*Waiting For: {2}nothing/mu);
  });

  it('is rejected where only identifiers, versions, times and codes are allowed', async () => {
    const bad = [
      { current_version: `1.21.0${hostile}` },
      { target_version: `1.21.0\n` },
      { bootID: `${FAILED_STAGE.bootID}\n` },
      { bootTime: `2026-01-02T03:04:05Z\n` },
      { settings: { records: [{ key: 'settings.motd', value: `"latest${hostile}"`, owner: 'x' }] } },
      { lastOperation: { ...FAILED_STAGE, errorCode: hostile } },
      { lastOperation: { ...FAILED_STAGE, version: `1.21.0-${'a'.repeat(200)}` } },
      { lastOperation: { ...FAILED_STAGE, message: 'a'.repeat(5_000) } },
      { [hostile]: hostile },
    ];
    for (const changes of bad) {
      const answer = await report(changes);
      expect([changes, answer.status]).toEqual([changes, 400]);
      expect(JSON.stringify(answer.body)).not.toMatch(INVISIBLE);
    }
    expect((await suite.cluster.api.get<BottlerocketShadow>(shadowPath(suite.namespace, agent.node))).status).toBe(
      undefined,
    );
  });

  it('is escaped in the log and does not start a new line, wherever it is sent', async () => {
    const { client } = suite.apiserver;
    const { token } = agent;
    const odd = encodeURIComponent('x\n\u001B[2J\u202E');
    await client.call('GET', `/v1/nodes/${odd}/shadow`, { token });
    await client.call('GET', `/${odd}`, { token });
    await client.call('PUT', `/v1/nodes/${agent.node}/shadow/status`, { token, raw: `{"a":${hostile}` });
    await client.call('PUT', `/v1/nodes/${agent.node}/shadow/status`, { token, raw: JSON.stringify({ [hostile]: 1 }) });
    const { lines } = suite.apiserver;
    expect(lines.length).toBeGreaterThan(4);
    for (const line of lines) {
      expect(line.trimEnd()).not.toMatch(INVISIBLE);
      expect(JSON.parse(line)).toHaveProperty('level');
    }
  });

  it('is rejected by the CRD when it is written without the apiserver', async () => {
    const path = `${shadowPath(suite.namespace, agent.node)}/status`;
    const conditions = [
      {
        type: 'Progressing',
        status: 'True',
        reason: 'Updating',
        message: hostile,
        lastTransitionTime: FAILED_STAGE.startTime,
      },
    ];
    const drain = { observedGeneration: 1, startTime: FAILED_STAGE.startTime, evicted: 0, remaining: 1 };
    const block = { pod: 'a/b', reason: 'Error', message: 'x', since: FAILED_STAGE.startTime };
    const bad = [
      { waitingFor: '\u202E' },
      { bootID: 'a b' },
      { conditions },
      { settings: { message: '\u2028' } },
      { settings: { records: [{ key: 'settings.motd', value: '"x\u001B"', owner: 'x' }] } },
      { lastOperation: { ...FAILED_STAGE, message: '\u009B' } },
      { lastOperation: { ...FAILED_STAGE, bootID: '\u200B' } },
      { drain: { ...drain, blockedBy: [{ ...block, message: '\uFEFF' }] } },
      { drain: { ...drain, blockedBy: [{ ...block, pod: 'a\n' }] } },
      { waitingFor: 'a'.repeat(257) },
    ];
    for (const status of bad) {
      const write = suite.cluster.api.patch(path, { status: { ...idleStatus(), ...status } });
      await expect(write.then(() => status)).rejects.toThrow(/422|Invalid/u);
    }
  });
});
