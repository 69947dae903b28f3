/** The three kinds of panel that the dashboards have, and the dashboard around them. */
import type { Builder, Dataquery } from '@grafana/grafana-foundation-sdk/cog';
import {
  BigValueColorMode,
  BigValueGraphMode,
  BigValueTextMode,
  GraphDrawStyle,
  LegendDisplayMode,
  LegendPlacement,
  ReduceDataOptionsBuilder,
  StackingConfigBuilder,
  StackingMode,
  TooltipDisplayMode,
  VisibilityMode,
  VizLegendOptionsBuilder,
  VizTooltipOptionsBuilder,
} from '@grafana/grafana-foundation-sdk/common';
import {
  AnnotationQueryBuilder,
  type Dashboard,
  DashboardBuilder,
  DashboardCursorSync,
  DatasourceVariableBuilder,
  FieldColorBuilder,
  FieldColorModeId,
  MappingType,
  type Panel,
  QueryVariableBuilder,
  ThresholdsConfigBuilder,
  ThresholdsMode,
  VariableRefresh,
} from '@grafana/grafana-foundation-sdk/dashboard';
import { DataqueryBuilder } from '@grafana/grafana-foundation-sdk/prometheus';
import { PanelBuilder as StatBuilder } from '@grafana/grafana-foundation-sdk/stat';
import { PanelBuilder as StateTimelineBuilder } from '@grafana/grafana-foundation-sdk/statetimeline';
import { PanelBuilder as TimeseriesBuilder } from '@grafana/grafana-foundation-sdk/timeseries';

export const DATASOURCE = { type: 'prometheus', uid: '${datasource}' };

/** Text and color (a name of Grafana's palette, which follows the theme) of each value. */
export type States = Readonly<Record<string, readonly [text: string, color: string]>>;

interface Options {
  readonly title: string;
  /** What it shows, and what to do when it looks bad. */
  readonly description: string;
  /** By the text of the legend. */
  readonly queries: Readonly<Record<string, string>>;
  /** Of 24. */
  readonly width: number;
  readonly height?: number;
  readonly unit?: string;
}

interface Graph extends Options {
  readonly stacked?: true;
  readonly bars?: true;
  /** By name of the series. */
  readonly colors?: Readonly<Record<string, string>>;
  /** One color, in a shade for each series. */
  readonly shades?: string;
}

interface Stat extends Options {
  readonly states?: States;
  /** The color from this value on. */
  readonly steps?: readonly (readonly [from: number | null, color: string])[];
}

interface Timeline extends Options {
  readonly states: States;
}

const GRAPH_HEIGHT = 8;
const STAT_HEIGHT = 4;
const REF_IDS = 'ABCDEFGH';

function targetsOf(queries: Options['queries'], instant: boolean): Builder<Dataquery>[] {
  return Object.entries(queries).map(([legend, expr], index) => {
    const query = new DataqueryBuilder().datasource(DATASOURCE).expr(expr).legendFormat(legend);
    const named = query.refId(REF_IDS.charAt(index));
    return instant ? named.instant() : named.range();
  });
}

const tooltip = (): VizTooltipOptionsBuilder => new VizTooltipOptionsBuilder().mode(TooltipDisplayMode.Multi);
const legend = (): VizLegendOptionsBuilder =>
  new VizLegendOptionsBuilder()
    .showLegend(true)
    .displayMode(LegendDisplayMode.List)
    .placement(LegendPlacement.Bottom)
    .calcs([]);
const mappingOf = (states: States) => [
  {
    type: MappingType.ValueToText as const,
    options: Object.fromEntries(
      Object.entries(states).map(([value, [text, color]], index) => [value, { text, color, index }]),
    ),
  },
];

export function graph(options: Graph): Builder<Panel> {
  const { title, description, queries, width, height = GRAPH_HEIGHT, unit = 'short', colors = {} } = options;
  const panel = new TimeseriesBuilder()
    .title(title)
    .description(description)
    .datasource(DATASOURCE)
    .targets(targetsOf(queries, false))
    .unit(unit)
    .min(0)
    .span(width)
    .height(height)
    .showPoints(VisibilityMode.Never)
    .lineWidth(2)
    .fillOpacity(options.stacked === true ? 70 : 10)
    .tooltip(tooltip())
    .legend(legend());
  if (options.stacked === true) panel.stacking(new StackingConfigBuilder().mode(StackingMode.Normal).group('A'));
  if (options.bars === true) panel.drawStyle(GraphDrawStyle.Bars).fillOpacity(80).interval('1m');
  if (options.unit === undefined) panel.decimals(0);
  if (options.shades !== undefined)
    panel.colorScheme(new FieldColorBuilder().mode(FieldColorModeId.Shades).fixedColor(options.shades));
  for (const [name, fixedColor] of Object.entries(colors))
    panel.overrideByName(name, [{ id: 'color', value: { mode: 'fixed', fixedColor } }]);
  return panel;
}

export function stat({ title, description, queries, width, height = STAT_HEIGHT, ...options }: Stat): Builder<Panel> {
  const { unit = 'short', states, steps = [[null, 'text']] } = options;
  const panel = new StatBuilder()
    .title(title)
    .description(description)
    .datasource(DATASOURCE)
    .targets(targetsOf(queries, true))
    .unit(unit)
    .span(width)
    .height(height)
    .noValue('–')
    .graphMode(BigValueGraphMode.None)
    .colorMode(BigValueColorMode.Value)
    .textMode(Object.keys(queries).length > 1 ? BigValueTextMode.ValueAndName : BigValueTextMode.Value)
    .reduceOptions(new ReduceDataOptionsBuilder().calcs(['lastNotNull']))
    .colorScheme(new FieldColorBuilder().mode(FieldColorModeId.Thresholds))
    .thresholds(
      new ThresholdsConfigBuilder()
        .mode(ThresholdsMode.Absolute)
        .steps(steps.map(([value, color]) => ({ value, color }))),
    );
  return states === undefined ? panel : panel.mappings(mappingOf(states));
}

export function timeline({ title, description, queries, width, height, states }: Timeline): Builder<Panel> {
  return new StateTimelineBuilder()
    .title(title)
    .description(description)
    .datasource(DATASOURCE)
    .targets(targetsOf(queries, false))
    .span(width)
    .height(height ?? GRAPH_HEIGHT)
    .mappings(mappingOf(states))
    .mergeValues(true)
    .lineWidth(0)
    .fillOpacity(70)
    .showValue(VisibilityMode.Auto)
    .legend(new VizLegendOptionsBuilder().showLegend(false).displayMode(LegendDisplayMode.List))
    .tooltip(tooltip());
}

interface Parts {
  readonly uid: string;
  readonly title: string;
  readonly description: string;
  /** Labels by which a user may filter, and the metric that has them. */
  readonly filters: Readonly<Record<string, string>>;
  /** Shown while the query has a value. */
  readonly annotations: Readonly<Record<string, { readonly expr: string; readonly color: string }>>;
  readonly panels: readonly Builder<Panel>[];
}

export function dashboard({ uid, title, description, filters, annotations, panels }: Parts): Dashboard {
  const made = new DashboardBuilder(title)
    .uid(uid)
    .description(description)
    .tags(['bottlerocket'])
    .time({ from: 'now-6h', to: 'now' })
    .refresh('30s')
    .timezone('browser')
    .tooltip(DashboardCursorSync.Crosshair)
    .readonly()
    .withVariable(new DatasourceVariableBuilder('datasource').label('Data source').type('prometheus'));
  for (const [label, metric] of Object.entries(filters)) made.withVariable(filterOf(label, metric));
  for (const [name, { expr, color }] of Object.entries(annotations))
    made.annotation(
      new AnnotationQueryBuilder()
        .name(name)
        .datasource(DATASOURCE)
        .enable(true)
        .iconColor(color)
        .expr(expr)
        .step('60s')
        .titleFormat(name)
        .textFormat('{{version}}'),
    );
  for (const panel of panels) made.withPanel(panel);
  return made.build();
}

/** All also finds series without the label. */
function filterOf(label: string, metric: string): QueryVariableBuilder {
  const query = `label_values(${metric}, ${label})`;
  return new QueryVariableBuilder(label)
    .label(label)
    .datasource(DATASOURCE)
    .query({ query, refId: label })
    .definition(query)
    .refresh(VariableRefresh.OnTimeRangeChanged)
    .multi(true)
    .includeAll(true)
    .allValue('.*')
    .current({ selected: true, text: 'All', value: '$__all' });
}
