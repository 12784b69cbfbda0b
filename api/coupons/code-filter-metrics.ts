import type { Metrics } from '../../shared/observability/metrics.js';
import type { CodeFilter } from './code-filter.js';

/** Puts what a filter counts on /metrics; it is read when somebody looks, so that a look-up costs no more for it. */
export function observeCodeFilter(metrics: Metrics, filter: CodeFilter): void {
  metrics.observe('code_filter_bytes', 'Memory of the code filters', () => filter.state.bytes);
  metrics.observe('code_filter_codes', 'Codes in the code filters', () => filter.state.codes);
  metrics.observe(
    'code_filter_error_rate',
    'Estimated share of unknown codes that are looked up',
    () => (filter.isSure ? filter.state.errorRate : 1),
    'max',
  );
  metrics.observeCounts(
    'code_filter_lookups_total',
    'Codes asked of the filter by answer',
    'answer',
    () => filter.lookups,
  );
  metrics.observeCounts(
    'code_filter_false_positives_total',
    'Codes that had to be looked up to be unknown',
    'filter',
    () => ({
      codes: filter.falsePositives,
    }),
  );
}
