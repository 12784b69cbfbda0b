import { z } from 'zod';
import { url } from './environment-values.js';

const SAMPLERS = [
  'always_on',
  'always_off',
  'traceidratio',
  'parentbased_always_on',
  'parentbased_always_off',
  'parentbased_traceidratio',
] as const;

/** Where spans are sent, and of which requests. */
export type TracingConfig = {
  /** The URL that receives spans, with its path. */
  url: string;
  serviceName: string;
  sampler: (typeof SAMPLERS)[number];
  /** Share of requests that the samplers with `traceidratio` keep, from 0 to 1. */
  ratio: number;
};

const TRACES_PATH = '/v1/traces';
/** A name with percent-encoded text as its value. */
const PAIRS = /^\s*[^=,\s]+\s*=[^,]*(,\s*[^=,\s]+\s*=[^,]*)*,?\s*$/;
const pairs = z
  .string()
  .regex(PAIRS, 'must be name=value, comma-separated')
  .refine((value) => {
    try {
      return decodeURIComponent(value) !== '';
    } catch {
      return false;
    }
  }, 'must be name=value, comma-separated, with values that are percent-encoded');

/** The environment variables of OpenTelemetry. Their names and meanings are those of its specification. */
export const TRACING_ENVIRONMENT = {
  OTEL_EXPORTER_OTLP_ENDPOINT: url(['http:', 'https:'])
    .optional()
    .describe(
      'base URL of an OpenTelemetry collector that receives spans by OTLP over HTTP, such as `http://127.0.0.1:4318` (docs/tracing.md). Unset: no spans are made, unless the next variable is set',
    ),
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: url(['http:', 'https:'])
    .optional()
    .describe('whole URL for spans, instead of OTEL_EXPORTER_OTLP_ENDPOINT followed by `/v1/traces`'),
  OTEL_EXPORTER_OTLP_HEADERS: pairs
    .optional()
    .describe('headers of the exporter, comma-separated `name=value`, for example an API key of the receiver'),
  OTEL_SERVICE_NAME: z.string().min(1).default('doorbuster').describe('`service.name` of the spans'),
  OTEL_RESOURCE_ATTRIBUTES: pairs
    .optional()
    .describe(
      'further attributes of the resource, comma-separated `name=value`, such as `deployment.environment.name=staging`',
    ),
  OTEL_TRACES_SAMPLER: z
    .enum(SAMPLERS)
    .default('parentbased_always_on')
    .describe(
      'which requests have spans. The samplers with `parentbased` follow the flag in the `traceparent` of a request, and apply their rule to requests without one',
    ),
  OTEL_TRACES_SAMPLER_ARG: z
    .string()
    .regex(/^(0(\.\d+)?|1(\.0+)?)$/, 'must be a number from 0 to 1')
    .transform(Number)
    .default(1)
    .describe('share of requests for the samplers with `traceidratio`, from 0 to 1'),
  OTEL_SDK_DISABLED: z
    .enum(['true', 'false'])
    .default('false')
    .describe('`true` = no spans, also if the other variables are set'),
};
type TracingEnvironment = z.infer<z.ZodObject<typeof TRACING_ENVIRONMENT>>;

/** @returns null when no receiver is configured */
export function tracingOf(e: TracingEnvironment): TracingConfig | null {
  const base = e.OTEL_EXPORTER_OTLP_ENDPOINT?.replace(/\/+$/, '');
  const target = e.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT ?? (base === undefined ? undefined : `${base}${TRACES_PATH}`);
  if (target === undefined || e.OTEL_SDK_DISABLED === 'true') return null;
  return {
    url: target,
    serviceName: e.OTEL_SERVICE_NAME,
    sampler: e.OTEL_TRACES_SAMPLER,
    ratio: e.OTEL_TRACES_SAMPLER_ARG,
  };
}
