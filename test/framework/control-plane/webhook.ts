import { once } from 'node:events';
import type { RequestListener } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { makeServingCertificate } from '../certificates.ts';

/** An admission webhook on this machine. */
export interface Webhook {
  /** Of a MutatingWebhookConfiguration or a ValidatingWebhookConfiguration. */
  readonly clientConfig: { readonly url: string; readonly caBundle: string };
  close(): Promise<void>;
}

const base64 = (content: string): string => Buffer.from(content).toString('base64');

/** Fields of the response, beside its UID. */
type Review = () => Promise<object>;

/** Starts a webhook that sets this label on every object, which must have labels. */
export async function startLabellingWebhook(label: string): Promise<Webhook> {
  const patch = base64(JSON.stringify([{ op: 'add', path: `/metadata/labels/${label}`, value: 'true' }]));
  return await startWebhook(async () => ({ allowed: true, patchType: 'JSONPatch', patch }));
}

/** Starts a webhook that allows everything after this time. */
export async function startSlowWebhook(ms: number): Promise<Webhook> {
  return await startWebhook(async () => {
    await sleep(ms);
    return { allowed: true };
  });
}

async function startWebhook(review: Review): Promise<Webhook> {
  const { caCert, cert, key } = makeServingCertificate({ commonName: 'webhook', ipAddresses: ['127.0.0.1'] });
  const server = createServer({ cert, key }, reviewer(review)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    clientConfig: { url: `https://127.0.0.1:${port}/`, caBundle: base64(caCert) },
    close: async () => {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

function reviewer(review: Review): RequestListener {
  const answer = async (...[request, response]: Parameters<RequestListener>): Promise<void> => {
    const { request: asked } = JSON.parse(await text(request)) as { request: { uid: string } };
    const body = {
      apiVersion: 'admission.k8s.io/v1',
      kind: 'AdmissionReview',
      response: { uid: asked.uid, ...(await review()) },
    };
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  };
  return (request, response) => {
    answer(request, response).catch(() => response.destroy());
  };
}
