// SPDX-License-Identifier: Apache-2.0

// Drives classic-level, LevelDB for Node.js: makes transfers as lines ask for them
// (workloads/programs/driver.py has the protocol, bank.py the transfers).

import { writeSync } from 'node:fs'
import { createInterface } from 'node:readline'

import { ClassicLevel } from 'classic-level'

const ACCOUNTS = 16
const BALANCE = 1000
const KINDS = { a: 'account', t: 'transfer' }

// How LevelDB says with an I/O error that a file is gone or too short; it calls all else corruption.
const LACKING = /no such file|invalid argument/i

class DamagedError extends Error {}

const known = { sync: 'on', buffer: '65536' }
const held = new Map() // by account: settles when all who asked for it before are done

function settings (words) {
  for (const word of words) {
    const [name, value] = word.split('=')
    if (value === undefined || !Object.hasOwn(known, name)) throw new Error(`${word}: no setting`)
    known[name] = value
  }
  const buffer = Number(known.buffer)
  if (!['on', 'off'].includes(known.sync)) throw new Error(`sync=${known.sync}: it is on or off`)
  if (!Number.isSafeInteger(buffer) || buffer < 1) throw new Error(`buffer=${known.buffer}: no size`)
  return { buffer, write: { sync: known.sync === 'on' } }
}

const key = (kind, number) => kind + String(number).padStart(8, '0')
const put = (name, value) => ({ type: 'put', key: name, value })

// Runs act once nobody else has these accounts. All are asked for at once, so nobody waits in a circle.
function alone (accounts, act) {
  const before = accounts.map((id) => held.get(id))
  const done = Promise.all(before).then(act)
  const settled = done.catch(() => {}) // who waits has no part in another's failure
  for (const id of accounts) held.set(id, settled)
  return done
}

async function balanceOf (store, id) {
  const value = await store.get(key('a', id))
  if (!/^-?\d+$/.test(value ?? '')) throw new DamagedError(`the balance of account ${id} is "${value}"`)
  return Number(value)
}

function create (store, write) {
  const ids = Array.from({ length: ACCOUNTS }, (_, id) => id)
  return store.batch(ids.map((id) => put(key('a', id), String(BALANCE))), write)
}

function move (store, write, number) {
  const giver = number % ACCOUNTS
  const taker = (giver + 1 + Math.floor(number / ACCOUNTS) % (ACCOUNTS - 1)) % ACCOUNTS
  const note = `transfer ${number} ${'.'.repeat(number % 200)}`
  return alone([giver, taker], async () => {
    await store.batch([
      put(key('a', giver), String(await balanceOf(store, giver) - 1)),
      put(key('a', taker), String(await balanceOf(store, taker) + 1)),
      put(key('t', number), `${giver} ${taker} ${note}`)
    ], write)
  })
}

async function read (store) {
  for await (const [name, value] of store.iterator()) {
    if (!/^[at]\d+$/.test(name)) throw new DamagedError(`a key is "${name}"`)
    say(1, `${KINDS[name[0]]} ${Number(name.slice(1))} ${value}`)
  }
}

// Ends only if a client fails.
async function run (store, write, first, clients) {
  const session = Number(process.env.POWERCUT_FD)
  let next = first
  async function serve () {
    for (;;) {
      const number = next++
      say(session, `? ${number}`)
      await move(store, write, number)
      say(session, `+ ${number}`)
    }
  }
  await Promise.all(Array.from({ length: clients }, serve))
}

async function obey (store, write, line) {
  const [word, ...rest] = line.split(' ')
  const numbers = rest.map(Number)
  const asked = `${word} ${numbers.every(Number.isSafeInteger) ? numbers.length : 'no number'}`
  if (asked === 'create 0') return create(store, write)
  if (asked === 'move 1') return move(store, write, ...numbers)
  if (asked === 'read 0') return read(store)
  if (asked === 'run 2') return run(store, write, ...numbers)
  throw new Error(`no command: ${line}`)
}

function say (descriptor, line) {
  let left = Buffer.from(`${line}\n`)
  while (left.length > 0) left = left.subarray(writeSync(descriptor, left))
}

function isDamage (error) {
  if (error === undefined) return false
  return error instanceof DamagedError || error.code === 'LEVEL_CORRUPTION' ||
    (error.code === 'LEVEL_IO_ERROR' && LACKING.test(error.message)) || isDamage(error.cause)
}

function stop (error) {
  const told = [error.message, error.cause?.message].filter(Boolean).join(': ')
  say(1, `${isDamage(error) ? 'damaged' : 'trouble'} ${told.split(/\s+/).join(' ')}`)
  process.exit(1)
}

async function main () {
  const words = process.argv.slice(2)
  const folder = words.pop()
  if (folder === undefined) throw new Error('usage: node index.js [SETTING=VALUE...] FOLDER')
  const { buffer, write } = settings(words)
  const store = new ClassicLevel(folder, { writeBufferSize: buffer })
  await store.open()
  say(1, 'ok')
  for await (const line of createInterface({ input: process.stdin })) {
    await obey(store, write, line)
    say(1, 'ok')
  }
  await store.close()
}

main().catch(stop)
