import type { Metrics } from '../../shared/observability/metrics.js';
import type { CodeFilter } from './code-filter.js';

/** Adds the counts of a filter to /metrics. They are read when metrics are collected, so that look-ups stay cheap. */
export function observeCodeFilter(metrics: Metrics, filter: CodeFilter): void {
  metrics.observe('code_filter_bytes', 'Memory of the code filters', () => filter.state.bytes);
  metrics.observe('code_filter_codes', 'Codes in the code filters', () => filter.state.codes);
  metrics.observe(
    'code_filter_error_rate',
    'Estimated share of unknown codes that are looked up',
    () => filter.state.errorRate,
    'max',
  );
  metrics.observeCounts(
    'code_filter_lookups_total',
    'Codes that were looked up in the filter, by answer',
    'answer',
    () => filter.lookups,
  );
  metrics.observeCounts(
    'code_filter_false_positives_total',
    'Unknown codes that the filter did not exclude',
    'filter',
    () => ({
      codes: filter.falsePositives,
    }),
  );
}
