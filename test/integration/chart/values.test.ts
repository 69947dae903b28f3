import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { wrongValues } from '../../framework/chart/wrong-values.ts';
import { renderChart } from '../../framework/chart.ts';
import { connectSharedControlPlane } from '../../framework/control-plane/shared.ts';

const cluster = connectSharedControlPlane();
const folder = mkdtempSync(join(tmpdir(), 'brupop-values-'));

afterAll(async () => {
  await cluster.close();
  rmSync(folder, { recursive: true, force: true });
});

describe('a values file is rejected that has', () => {
  it.each(Object.entries(wrongValues))('%s, and the message names it', async (_, [text, named]) => {
    const file = join(folder, 'values.yaml');
    writeFileSync(file, text);
    const message = await renderChart(cluster, '-f', file).then(
      () => 'accepted',
      (error: unknown) => String(error),
    );
    expect(message).toContain("don't meet the specifications of the schema");
    expect(message).toContain(named);
  });
});
