// For `helm test`: an API server answers at its Service, with a certificate that agents trust, and rejects a caller
// without a token. With tls.mode self a controller leads as well, since the leader issues the certificate.
import { readFileSync } from 'node:fs';
import { get } from 'node:https';
import { env } from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';

const { APISERVER_HOST: host, APISERVER_PORT: port, APISERVER_SERVER_NAME: servername, CA_FILE } = env;
const path = '/v1/nodes/helm-test/shadow/stream';
const [ATTEMPTS, PAUSE_MS, LIMIT_MS] = [12, 5_000, 5_000];

function ask() {
  return new Promise((resolve, reject) => {
    const call = get({ host, port, servername, ca: readFileSync(CA_FILE), path, timeout: LIMIT_MS }, (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    call.on('timeout', () => call.destroy(new Error(`no answer in ${LIMIT_MS / 1000} seconds`)));
    call.on('error', reject);
  });
}

let found = '';
for (let attempt = 1; attempt <= ATTEMPTS && found !== '401'; attempt += 1) {
  if (attempt > 1) await sleep(PAUSE_MS);
  found = await ask().then(String, String);
  console.log(`${servername} at ${host}:${port}: expected 401, found ${found}`);
}
process.exitCode = found === '401' ? 0 : 1;
