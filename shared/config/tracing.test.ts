import { describe, expect, it } from '@jest/globals';
import { type ConfigError, readConfig } from './config.js';

const ENGINES = { REDIS_URL: 'redis://127.0.0.1:6379', DATABASE_URL: 'postgres://127.0.0.1/sale' };
const tracingOf = (env: Record<string, string>) => readConfig({ ...ENGINES, ...env }).tracing;

describe('the settings of tracing', () => {
  it('are off without a receiver, and when OpenTelemetry is disabled', () => {
    expect(tracingOf({ OTEL_SERVICE_NAME: 'shop', OTEL_TRACES_SAMPLER: 'always_on' })).toBeNull();
    expect(tracingOf({ OTEL_EXPORTER_OTLP_ENDPOINT: '' })).toBeNull();
    expect(tracingOf({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://c:4318', OTEL_SDK_DISABLED: 'true' })).toBeNull();
  });

  it('take the standard path behind the base URL, or a whole URL', () => {
    const byDefault = { serviceName: 'doorbuster', sampler: 'parentbased_always_on', ratio: 1 };
    expect(tracingOf({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://c:4318/otlp/' })).toEqual({
      url: 'http://c:4318/otlp/v1/traces',
      ...byDefault,
    });
    expect(
      tracingOf({
        OTEL_EXPORTER_OTLP_ENDPOINT: 'http://c:4318',
        OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'https://traces.example/in',
        OTEL_TRACES_SAMPLER: 'parentbased_traceidratio',
        OTEL_TRACES_SAMPLER_ARG: '0.25',
        OTEL_SERVICE_NAME: 'shop',
      }),
    ).toEqual({
      url: 'https://traces.example/in',
      serviceName: 'shop',
      sampler: 'parentbased_traceidratio',
      ratio: 0.25,
    });
  });

  it('are refused with each mistake, without the secrets in the headers', () => {
    const env = {
      OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4317',
      OTEL_EXPORTER_OTLP_HEADERS: 'secret',
      OTEL_RESOURCE_ATTRIBUTES: 'team=%E0%A4%A',
      OTEL_TRACES_SAMPLER: 'jaeger_remote',
      OTEL_TRACES_SAMPLER_ARG: '10%',
    };
    const problems = () => {
      try {
        return readConfig({ ...ENGINES, ...env }) && [];
      } catch (error) {
        return (error as ConfigError).problems;
      }
    };
    expect(problems()).toHaveLength(5);
    expect(problems()).toContain('OTEL_EXPORTER_OTLP_HEADERS: must be name=value, comma-separated');
    expect(problems()).toContain('OTEL_TRACES_SAMPLER_ARG = "10%": must be a number from 0 to 1');
  });
});
