import { status } from '@grpc/grpc-js';
import { ApiError, describeError } from '@semblance/common/errors';
import { type CallContext, GrpcError, type GrpcService, unary } from '@semblance/common/grpc/server';
import { toStatus } from '@semblance/common/grpc/status';
import type { Logger } from '@semblance/common/logging';
import type { Voice } from '@semblance/common/voices/voice';
import { type AdminServiceServer, AdminServiceService } from '@semblance/proto/semblance/admin/v1/admin';
import { listAccounts, listKeys, requireAccount, showAccount } from '../accounts/accounts.ts';
import { showLimits } from '../accounts/limits.ts';
import { capsSet, showCaps } from '../admin/cap-changes.ts';
import * as changes from '../admin/changes.ts';
import * as rateChanges from '../admin/rate-changes.ts';
import { listSettings } from '../admin/settings.ts';
import { createAdminGate } from '../admin-tokens/gate.ts';
import type { Oidc } from '../admin-tokens/oidc.ts';
import type { AdminMethod } from '../admin-tokens/roles.ts';
import * as tokenChanges from '../admin-tokens/token-changes.ts';
import { listTokens } from '../admin-tokens/tokens.ts';
import { type Fleet, listCapabilities, showCapacity } from '../agents/capacity.ts';
import { ACTOR_KEY, actorFrom } from '../audit/actor.ts';
import { type AuditRow, exportAudit, listAudit, writeAudit } from '../audit/audit.ts';
import { historyOf } from '../jobs/history.ts';
import { listJobs } from '../jobs/job-entries.ts';
import { showJob } from '../jobs/show-job.ts';
import { listMedia, type MediaRow } from '../media/list-media.ts';
import type { Removals } from '../media/removals.ts';
import type { Metrics } from '../metrics.ts';
import { listSessions, type SessionRow } from '../sessions/list-sessions.ts';
import type { Database } from '../storage/database.ts';
import type { Transaction } from '../storage/sql.ts';
import { summarizeAccounts } from '../usage/accounts-month.ts';
import { readUsage, summarizeUsage } from '../usage/usage.ts';
import { listOffered } from '../voices/list-voices.ts';
import { createVoiceChanges } from '../voices/voice-changes.ts';
import { deliveryView, listDeliveries } from '../webhooks/list-deliveries.ts';

export interface AdminServiceOptions {
  readonly logger: Logger;
  readonly database: Database;
  /** The bootstrap token. */
  readonly token: string;
  /** Undefined: no issuer's tokens are taken. */
  readonly oidc?: Oidc | undefined;
  readonly metrics: Metrics;
  readonly removals: Pick<Removals, 'payNow'>;
  /** Deletes the LiveSession of a session whose end was requested. */
  readonly endSession: (sessionId: string) => void;
  /** Voices from files, by id. */
  readonly voices: ReadonlyMap<string, Voice>;
  readonly fleet: Fleet;
  /** Namespace of the RenderJobs. */
  readonly namespace: string;
}

/** Creates the service of the service owner. */
export function createAdminService(options: AdminServiceOptions): GrpcService {
  const { logger, database, metrics, removals, endSession, fleet, namespace } = options;
  const { sql, slow } = database;
  const voiceChanges = createVoiceChanges(options.voices);
  const courseOf = (jobId: string) => {
    const renderJob = fleet.renderJobs.get(jobId, namespace);
    return renderJob && historyOf(renderJob);
  };
  const gate = createAdminGate({
    sql: database.fast,
    bootstrapToken: options.token,
    oidc: options.oidc,
    logger,
    onRefused: metrics.adminRefused,
  });

  const guarded = <Request, Response>(
    method: AdminMethod,
    handler: (request: Request) => Promise<Response>,
  ) =>
    unary<Request, Response>(
      logger,
      metrics.timed(method, async (request: Request, context: CallContext) => {
        await gate.admit(method, context);
        return handler(request);
      }),
    );

  /** Wraps a changing method: the change and its audit row are one transaction. */
  const changing = <Request, Made, Response = Made>(
    method: AdminMethod,
    change: (tx: Transaction, request: Request, actor: string) => Promise<changes.Changed<Made>>,
    show: (made: Made) => Response | Promise<Response> = (made) => made as unknown as Response,
  ) =>
    unary<Request, Response>(
      logger,
      metrics.timed(method, async (request: Request, context: CallContext) => {
        const actor = await gate.admit(method, context);
        const { metadata, requestId } = context;
        const stated = actorFrom(metadata.get(ACTOR_KEY)[0]?.toString() ?? '');
        const changed = await sql.begin(async (tx) => {
          const made = await change(tx, request, actor.name);
          await writeAudit(tx, { action: method, actor, stated, requestId }, made.audit);
          return made;
        });
        if (changed.objectKeys) await removals.payNow(changed.objectKeys);
        if (changed.endedSession !== undefined) endSession(changed.endedSession);
        return show(changed.response);
      }),
    );

  const implementation: AdminServiceServer = {
    createAccount: changing('CreateAccount', changes.accountCreated),
    // The books are recomputed afterwards: nobody's submits wait for it, and an error in it undoes no top-up.
    topUpAccount: changing('TopUpAccount', changes.accountToppedUp, async ({ accountId, booked }) => ({
      bookedBefore: !booked,
      account: await showAccount(slow, accountId).catch((cause: unknown) => {
        // A reader of an error would assume that nothing was booked, and book it again.
        logger.error(
          { err: cause, accountId },
          `booked a top-up, but cannot show its account: ${describeError(cause)}`,
        );
        const message =
          'The top-up is booked; do not send it again. The account could not be shown: ask for it later.';
        throw Object.assign(
          new GrpcError(status.INTERNAL, message),
          toStatus(new ApiError('internal_error', message)),
        );
      }),
    })),
    adjustAccount: changing('AdjustAccount', changes.accountAdjusted),
    showAccount: guarded('ShowAccount', async ({ accountId }) => ({
      account: await showAccount(slow, accountId),
    })),
    listAccounts: guarded('ListAccounts', async (request) => ({
      accounts: await listAccounts(sql, request),
    })),
    createKey: changing('CreateKey', changes.keyCreated),
    revokeKey: changing('RevokeKey', changes.keyRevoked),
    limitKey: changing('LimitKey', changes.keyLimited),
    setKey: changing('SetKey', changes.keySet),
    showCaps: guarded('ShowCaps', (request) => showCaps(sql, request)),
    setCaps: changing('SetCaps', capsSet),
    listKeys: guarded('ListKeys', async (request) => ({ keys: await listKeys(sql, request) })),
    showSecret: changing('ShowSecret', changes.secretShown),
    rotateSecret: changing('RotateSecret', changes.secretRotated),
    promoteSecret: changing('PromoteSecret', changes.secretPromoted),
    listDeliveries: guarded('ListDeliveries', async ({ accountId, state, limit }) => {
      if (accountId !== '') await requireAccount(sql, accountId);
      const asked = { ...(accountId === '' ? {} : { accountId }), state, limit: limit === 0 ? 500 : limit };
      return { deliveries: (await listDeliveries(sql, asked)).map(deliveryView) };
    }),
    replayDelivery: changing('ReplayDelivery', changes.deliveryReplayed, (delivery) => ({
      delivery: deliveryView(delivery),
    })),
    listUsage: guarded('ListUsage', async ({ accountId, range, limit }) => {
      await requireAccount(sql, accountId);
      return { entries: await readUsage(sql, accountId, range, limit) };
    }),
    summarizeUsage: guarded('SummarizeUsage', async ({ accountId, range }) => {
      await requireAccount(sql, accountId);
      return { summary: await summarizeUsage(sql, accountId, range) };
    }),
    summarizeAccounts: guarded('SummarizeAccounts', (request) => summarizeAccounts(sql, request)),
    listJobs: guarded('ListJobs', async (request) => ({ jobs: await listJobs(sql, request, courseOf) })),
    showJob: guarded('ShowJob', ({ jobId }) => showJob(sql, jobId, courseOf)),
    showCapacity: guarded('ShowCapacity', () => showCapacity(sql, fleet)),
    listSessions: guarded('ListSessions', async (request) => ({
      sessions: (await listSessions(sql, request)).map(sessionView),
    })),
    endSession: changing('EndSession', changes.sessionEnded, (session) => ({
      session: sessionView(session),
    })),
    switchCapability: changing('SwitchCapability', changes.capabilitySwitched),
    listCapabilities: guarded('ListCapabilities', async () => ({
      capabilities: await listCapabilities(sql, fleet),
    })),
    showLimits: guarded('ShowLimits', async ({ accountId }) => ({
      accountId,
      limits: await showLimits(sql, accountId),
    })),
    setLimits: changing('SetLimits', changes.limitsSet),
    setRates: changing('SetRates', rateChanges.ratesSet),
    previewRates: guarded('PreviewRates', (request) => rateChanges.previewRates(sql, request)),
    listRates: guarded('ListRates', async (request) => ({
      capabilities: await rateChanges.listRates(sql, request),
    })),
    resetRates: changing('ResetRates', rateChanges.ratesReset),
    cancelRates: changing('CancelRates', rateChanges.ratesCancelled),
    listSettings: guarded('ListSettings', async () => ({ settings: await listSettings(sql) })),
    setSetting: changing('SetSetting', changes.settingSet),
    listVoices: guarded('ListVoices', async () => ({
      voices: await listOffered({ files: options.voices, sql }),
    })),
    addVoice: changing('AddVoice', voiceChanges.voiceAdded),
    removeVoice: changing('RemoveVoice', voiceChanges.voiceRemoved),
    listAudit: guarded('ListAudit', async (request) => ({
      entries: (await listAudit(sql, request)).map(auditEntry),
    })),
    exportAudit: guarded('ExportAudit', async ({ after }) => exportAudit(sql, after)),
    createAdminToken: changing('CreateAdminToken', tokenChanges.adminTokenCreated),
    listAdminTokens: guarded('ListAdminTokens', async () => ({ tokens: await listTokens(sql) })),
    revokeAdminToken: changing('RevokeAdminToken', tokenChanges.adminTokenRevoked),
    rotateAdminToken: changing('RotateAdminToken', tokenChanges.adminTokenRotated),
    listMedia: guarded('ListMedia', async (request) => ({
      deletions: (await listMedia(sql, request)).map(mediaDeletion),
    })),
    deleteMedia: changing('DeleteMedia', changes.mediaDeleted),
  };
  return { name: 'semblance.admin.v1.AdminService', definition: AdminServiceService, implementation };
}

function sessionView(row: SessionRow) {
  return {
    sessionId: row.id,
    accountId: row.account_id,
    capability: row.capability,
    state: row.state,
    agent: row.agent ?? undefined,
    askedAt: row.asked_at.toISOString(),
    endedAt: row.ended_at?.toISOString(),
    maxDurationSeconds: row.max_seconds,
    maxCostMicros: row.max_cost_micros,
    streamedMs: row.streamed_ms,
    chargedMicros: row.charged_micros ?? undefined,
    reason: row.reason ?? undefined,
  };
}

function auditEntry(row: AuditRow) {
  const text = (facts: unknown) => (facts === null ? undefined : JSON.stringify(facts));
  return {
    id: row.id,
    at: row.at.toISOString(),
    actor: row.actor,
    action: row.action,
    accountId: row.account_id ?? undefined,
    subject: row.subject,
    beforeJson: text(row.before),
    afterJson: text(row.after),
    requestId: row.request_id ?? undefined,
    role: row.role,
    tokenId: row.token_id ?? undefined,
    stated: row.stated ?? undefined,
    seq: row.seq,
    hash: row.hash.toString('hex'),
  };
}

function mediaDeletion(row: MediaRow) {
  return {
    objectKey: row.object_key,
    kind: row.kind,
    accountId: row.account_id ?? undefined,
    jobId: row.job_id ?? undefined,
    sizeBytes: row.size_bytes,
    removedBy: row.removed_by,
    actor: row.actor ?? undefined,
    removedAt: row.removed_at.toISOString(),
    deletedAt: row.deleted_at?.toISOString(),
  };
}
