/** The dashboards of the chart as Grafana reads them, and their queries as Grafana sends them. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { chartDir } from '../crds.ts';

export const DASHBOARDS = join(chartDir, 'files/dashboards');

export interface Target {
  readonly expr: string;
  readonly legendFormat: string;
  readonly instant?: boolean;
  readonly datasource: object;
}
export interface Panel {
  readonly title: string;
  readonly description: string;
  readonly type: string;
  readonly targets: readonly Target[];
}
export interface Dashboard {
  readonly uid: string;
  readonly panels: readonly Panel[];
  readonly annotations?: { readonly list: readonly { readonly name: string; readonly expr: string }[] };
  readonly templating: { readonly list: readonly { readonly name: string; readonly definition?: string }[] };
}

export function readDashboards(): Dashboard[] {
  return readdirSync(DASHBOARDS).map((file) => JSON.parse(readFileSync(join(DASHBOARDS, file), 'utf8')) as Dashboard);
}

/** The query with all values of the variables selected, and an interval. */
export function filledIn(expr: string, interval = '5s'): string {
  return expr.replaceAll(/\$__(?:rate_)?interval/gu, interval).replaceAll(/\$(?:cluster|group|zone)\b/gu, '.*');
}
