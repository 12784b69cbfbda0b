/** Codes of coupons, and the jobs that make and import them (docs/codes.md). */
export const CODES = `
  create table codes (
    code text primary key check (code ~ '^[A-Z0-9]{1,64}$'),
    campaign_id uuid not null references campaigns,
    code_no integer not null check (code_no >= 0),
    user_id text,
    constraint codes_by_number unique (campaign_id, code_no)
  );
  comment on column codes.code is 'without spaces and hyphens, capitals';
  comment on column codes.code_no is '1, 2, 3 … within the campaign, without gaps; 0 = the code of a shared campaign';
  comment on column codes.user_id is 'the only one who may use it; null = whoever comes';
  create index codes_by_user on codes (user_id) where user_id is not null;
  create index codes_shared on codes (code) where code_no = 0;

  create table code_series (
    campaign_id uuid primary key references campaigns,
    last_no integer not null default 0 check (last_no >= 0)
  );
  comment on table code_series is
    'the last number given in each campaign; its row is the lock under which numbers are given';

  create table code_jobs (
    job_id uuid primary key,
    campaign_id uuid not null references campaigns,
    kind text not null check (kind in ('generate', 'import')),
    status text not null default 'waiting' check (status in ('waiting', 'running', 'done', 'failed')),
    prefix text not null default '',
    symbols integer not null default 0,
    total integer not null,
    processed integer not null default 0,
    added integer not null default 0,
    duplicates integer not null default 0,
    bad_lines bigint not null default 0,
    last_line integer not null default 0,
    errors jsonb not null default '[]',
    failure text,
    created_by text not null,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    finished_at timestamptz,
    check (processed <= total)
  );
  comment on column code_jobs.symbols is 'of a generated code after its prefix';
  comment on column code_jobs.total is 'codes to make, or lines of the file that can be codes';
  comment on column code_jobs.last_line is 'line of the file up to which the job is done';
  comment on column code_jobs.errors is 'the first lines that were not taken, [{line, detail}]';
  create index code_jobs_unfinished on code_jobs (updated_at) where status in ('waiting', 'running');

  create table code_staging (
    job_id uuid not null,
    line integer not null,
    code text not null,
    user_id text,
    primary key (job_id, line)
  );
  comment on table code_staging is
    'lines of an upload, written in one transaction with their job; the job takes them out';
`;
