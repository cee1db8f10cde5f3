import type {
  CreateAdminTokenRequest,
  CreateAdminTokenResponse,
  RevokeAdminTokenRequest,
  RevokeAdminTokenResponse,
  RotateAdminTokenRequest,
  RotateAdminTokenResponse,
} from '@semblance/proto/semblance/admin/v1/admin';
import type { Changed } from '../admin/changes.ts';
import type { Transaction } from '../storage/sql.ts';
import { createToken, revokeToken, rotateToken, tokenBefore } from './tokens.ts';

export async function adminTokenCreated(
  tx: Transaction,
  { name, role, lifetimeSeconds }: CreateAdminTokenRequest,
): Promise<Changed<CreateAdminTokenResponse>> {
  const response = await createToken(tx, { name, role, lifetimeSeconds });
  const { tokenId, expiresAt = null } = response.token;
  return { response, audit: { subject: tokenId, after: { name, role, expires_at: expiresAt } } };
}

export async function adminTokenRevoked(
  tx: Transaction,
  { tokenId }: RevokeAdminTokenRequest,
): Promise<Changed<RevokeAdminTokenResponse>> {
  const { name, revokedAt: before = null } = await tokenBefore(tx, tokenId);
  const token = await revokeToken(tx, tokenId);
  const audit = {
    subject: tokenId,
    before: { name, revoked_at: before },
    after: { name, revoked_at: token.revokedAt },
  };
  return { response: { token }, audit };
}

export async function adminTokenRotated(
  tx: Transaction,
  { tokenId }: RotateAdminTokenRequest,
): Promise<Changed<RotateAdminTokenResponse>> {
  const { name, expiresAt: before = null } = await tokenBefore(tx, tokenId);
  const response = await rotateToken(tx, tokenId);
  const { expiresAt = null } = response.token;
  const audit = {
    subject: tokenId,
    before: { name, expires_at: before },
    after: { name, expires_at: expiresAt },
  };
  return { response, audit };
}
