import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { jest } from '@jest/globals';
import { NodeToDrain } from '../../framework/apiserver/drains.ts';
import { podNames } from '../../framework/apiserver/pods.ts';
import { useConfiguredApiserver } from '../../framework/apiserver/suite.ts';
import { startSlowWebhook } from '../../framework/control-plane/webhook.ts';
import { eventually } from '../../framework/eventually.ts';

jest.setTimeout(60_000);

const WEBHOOKS = '/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations';

describe('an API server that stops', () => {
  const suite = useConfiguredApiserver({});

  it('does not wait for a connection whose TLS handshake never comes', async () => {
    const apiserver = await suite.start();
    const socket = connect(apiserver.port, '127.0.0.1');
    await once(socket, 'connect');
    await sleep(300);
    const startedAt = performance.now();
    await apiserver.stop();
    expect(performance.now() - startedAt).toBeLessThan(5_000);
    socket.destroy();
  });

  it('does not cut off an eviction, for which a webhook takes six seconds', async () => {
    const apiserver = await suite.start();
    const node = await NodeToDrain.create(suite);
    const name = await node.pod();
    const webhook = await startSlowWebhook(6_000);
    await suite.cluster.api.create(WEBHOOKS, {
      metadata: { name: 'slow-evictions' },
      webhooks: [
        {
          name: 'slow.example.com',
          clientConfig: webhook.clientConfig,
          rules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['pods/eviction'] }],
          timeoutSeconds: 15,
          sideEffects: 'None',
          admissionReviewVersions: ['v1'],
        },
      ],
    });
    try {
      // kube-apiserver calls a new webhook a moment later.
      await sleep(2_000);
      const pass = node.drain(apiserver).catch((error: unknown) => String(error));
      await sleep(1_500);
      expect(await podNames(suite.cluster, node.namespace)).toEqual([name]);
      await apiserver.stop();
      await pass;
      expect(node.accepted(apiserver)).toEqual([name]);
      await eventually(async () => expect(await podNames(suite.cluster, node.namespace)).toEqual([]));
    } finally {
      await suite.cluster.api.delete(`${WEBHOOKS}/slow-evictions`);
      await webhook.close();
    }
  });
});
