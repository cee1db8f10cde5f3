/** Answers of the API that the console reads (docs/reference/api.md). */

export type Status = 'queued' | 'processing' | 'succeeded' | 'failed';

export interface Balance {
  readonly balance_usd: number;
  readonly total_spent_usd: number;
  readonly total_topped_up_usd: number;
  readonly spent_this_week_usd: number;
  readonly spent_this_month_usd: number;
  readonly held_usd: number;
  readonly reserved_usd: number;
  readonly available_usd: number;
}

export interface SpendDay {
  readonly day: string;
  readonly spent_usd: number;
}

export interface Details {
  readonly faces?: {
    readonly found: number;
    readonly changed: number;
    readonly left: readonly { readonly reason: string; readonly count: number }[];
  };
  readonly hints: readonly { readonly code: string; readonly message: string; readonly input?: string }[];
  readonly models?: readonly { readonly name: string; readonly sha256: string; readonly licence: string }[];
  readonly engine_options?: Readonly<Record<string, string>>;
}

export interface Job {
  readonly id: string;
  readonly status: Status;
  readonly output_url: string | null;
  readonly charged_usd: number | null;
  readonly error: { readonly code: string; readonly message: string } | null;
  readonly details?: Details;
  readonly preview_url?: string;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly expires_at?: string;
}

export interface ListedJob extends Job {
  readonly capability: string;
  readonly feature: string;
  readonly created_at: string;
  readonly ended_at: string | null;
}

export interface JobPage {
  readonly jobs: readonly ListedJob[];
  readonly next_cursor: string | null;
}

export interface UsageEntry {
  readonly id: string;
  readonly endpoint: string;
  readonly feature: string;
  readonly status: Status;
  readonly charged_usd: number;
  readonly reason: string | null;
  readonly created_at: string;
}

export interface UsageSummary {
  readonly total_calls: number;
  readonly succeeded: number;
  readonly failed: number;
  readonly in_flight: number;
  readonly total_spent_usd: number;
  readonly per_feature: readonly {
    readonly feature: string;
    readonly calls: number;
    readonly spend_usd: number;
  }[];
}

export interface Cap {
  readonly period: 'day' | 'month';
  readonly cap_usd: number | null;
  readonly spent_usd: number;
  readonly held_usd: number;
  readonly left_usd: number | null;
  readonly ends_at: string;
}

export interface Key {
  readonly key_id: string;
  readonly name: string | null;
  readonly prefix: string | null;
  readonly scopes: readonly string[];
  readonly expires_at: string | null;
  readonly allowed_addresses: readonly string[];
  readonly caps: readonly Cap[];
  readonly requests_per_minute: number;
  readonly created_at: string;
  readonly last_used_at: string | null;
  readonly made_by: string | null;
}

export interface MadeKey extends Key {
  readonly api_key: string;
}

export interface Secret {
  readonly secret: string;
  readonly next: string | null;
}

export interface Endpoint {
  readonly id: string;
  readonly url: string;
  readonly description: string;
  readonly events: readonly string[];
  readonly enabled: boolean;
  readonly disabled_by: 'owner' | 'failing' | null;
  readonly failing_since: string | null;
  readonly created_at: string;
}

export interface Delivery {
  readonly id: string;
  readonly event: string;
  readonly endpoint_id: string | null;
  readonly job_id: string | null;
  readonly url: string;
  readonly state: 'pending' | 'delivered' | 'abandoned';
  readonly created_at: string;
  readonly next_attempt_at: string | null;
  readonly attempts: readonly {
    readonly at: string;
    readonly status: number | null;
    readonly error: string | null;
    readonly milliseconds: number;
  }[];
}

export interface ConsoleSession {
  readonly session_id: string;
  readonly key_id: string;
  readonly created_at: string;
  readonly last_used_at: string;
  readonly expires_at: string;
  readonly address: string | null;
  readonly browser: string | null;
  readonly current: boolean;
}

export interface LiveSession {
  readonly session_id: string;
  readonly capability: string;
  readonly feature: string;
  readonly status: Status;
  readonly created_at: string;
  readonly ended_at: string | null;
  readonly max_duration_sec: number;
  readonly max_cost_usd: number;
  readonly streamed_sec: number;
  readonly charged_usd: number | null;
  readonly reason: string | null;
}

export interface Batch {
  readonly id: string;
  readonly status: 'processing' | 'finished';
  readonly jobs: number;
  readonly counts: Readonly<Record<Status, number>>;
  readonly hold_usd: number;
  readonly charged_usd: number;
  readonly metadata: Readonly<Record<string, string>> | null;
  readonly created_at: string;
  readonly finished_at: string | null;
}

export interface Receipt {
  readonly statement: {
    readonly kind: string;
    readonly object_key: string;
    readonly job_id: string | null;
    readonly size_bytes: number;
    readonly sha256: string | null;
    readonly requested_by: string;
    readonly removed_at: string;
    readonly deleted_at: string;
  };
  readonly jws: string;
}
